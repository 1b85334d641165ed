// SPDX-License-Identifier: Apache-2.0
/// @file
/// State of an engine: the window of tasks, the TensorMap, the storages and the
/// scheduler.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "map/conflict_search.hpp"
#include "replay/captured_graph.hpp"
#include "scopes/heap_ring.hpp"
#include "scopes/scope_stack.hpp"
#include "tasks/exclusion.hpp"
#include "tasks/failure_log.hpp"
#include "tasks/scheduler.hpp"
#include "tasks/storage_table.hpp"
#include "tasks/watchdog.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::runtime {

/// Keeps a task from starting while it is being wired.
inline constexpr std::int32_t wiring_guard = 1 << 30;

/// @threads{the submitter, but for counters and wake}
struct engine::impl {
  explicit impl(const engine_options& o);

  /// Counters of the submitter, readable from any thread.
  struct submitter_tally {
    std::atomic<std::uint64_t> submitted{0};
    std::atomic<std::uint64_t> replayed{0};
    std::array<std::atomic<std::uint64_t>, hazards> edges{};  ///< by hazard
    std::atomic<std::uint64_t> lookups{0};
    std::atomic<std::uint64_t> window_stalls{0};
    std::atomic<std::uint64_t> access_stalls{0};
    std::atomic<std::uint64_t> edge_stalls{0};
    std::atomic<std::uint64_t> heap_stalls{0};
  };

  /// A replay some of whose tasks have not been retired.
  struct live_replay {
    std::shared_ptr<captured_graph> graph;
    std::unique_ptr<replay_instance> instance;
    task_id first = 0;
    task_id end = 0;
    bool shown = false;  ///< its accesses are in the map
  };
  /// Recording, or recorded and still running.
  struct live_recording {
    std::shared_ptr<captured_graph> graph;
    task_id end = 0;
  };

  /// The record of a task that has not been retired.
  [[nodiscard]] task& at(task_id id) noexcept {
    if (!replays.empty()) {
      for (const live_replay& r : replays) {
        if (id >= r.first && id < r.end) {
          return r.instance->records.tasks[id - r.first];
        }
      }
    }
    return records.tasks[id & (window - 1)];
  }
  [[nodiscard]] bool has_ended(task_id id) noexcept {
    return id < oldest || (id < next && at(id).ended());
  }

  /// Whether a task may have these accesses, and what to say if it may not.
  [[nodiscard]] bool allowed(std::span<const access> accesses) const noexcept;
  /// Whether it may, and all are `is_plain`.
  [[nodiscard]] bool all_plain(std::span<const access> accesses) const noexcept;
  [[nodiscard]] bool too_many(std::span<const access> accesses) const noexcept;
  [[nodiscard]] error refusal(std::span<const access> accesses) const;
  [[nodiscard]] result<void> check(const submit_options& with) const;
  /// Whether one more task has room, with so many accesses, and it is not time to retire.
  [[nodiscard]] bool has_room(std::size_t accesses) const noexcept;
  /// Runs tasks until there is room for so many more, with so many accesses.
  void make_room(std::uint32_t count, std::size_t accesses);
  void wait_for_room(std::uint32_t count, std::size_t accesses);
  [[nodiscard]] bool full(std::uint32_t count) const noexcept {
    return next - oldest + count > window;
  }
  /// Runs tasks until the window has room for so many more, or about so.
  void stall(std::uint32_t count);
  /// Gives back what ended tasks hold, oldest first: at most `most` of those submitted
  /// one by one, all of replays.
  void retire(std::uint32_t most);
  void retire_one(task& t) {
    if (!t.is_spent()) {
      clean_up(t);
    }
    ++oldest;
  }
  void clean_up(task& t);
  /// False if a task of it has not ended.
  bool retire_replay(live_replay& r);
  task& prepare(const char* name, const erased_kernel& kernel,
                const submit_options& with);
  void begin_history(task& t, task_history& h, std::int64_t now);
  /// Finds the predecessors of the accesses, and the failure that they inherit. `grouped`
  /// is the one of them that commutes in any order, or null.
  void look_up(task& t, std::span<const access> accesses, bool prune,
               const access* grouped);
  /// Finds predecessors and registers, where all are `is_plain`.
  void enter_plain(task& t, std::span<const access> accesses);
  /// Puts the task among those that it commutes with.
  void join_group(task& t);
  void leave_group(task& t) noexcept;
  void register_accesses(task& t, std::span<const access> accesses, bool manual,
                         const access* grouped);
  /// Storages whose accesses are not in the map, or will not be asked for there.
  void keep_unregistered(const task& t, std::span<const access> accesses, bool manual);
  /// Hangs the task into its predecessors' lists. Returns how many it waits for.
  std::uint32_t wire(task& t);
  /// The same while there is no replay.
  std::uint32_t wire_in_window(task& t);
  /// A predecessor that has ended hands its failure on.
  static void inherit(task& t, const task& ended, hazard why) noexcept;
  /// Says to who watches what the task waits for.
  void show_waits(const task& t);
  void show_waits(const replay_instance& r, std::size_t count);
  template <class Find>
  std::uint32_t wire_to(task& t, Find&& find);
  /// One edge; false if `before` has ended.
  bool wire_one(task& t, task& before, hazard why);
  /// The same; `successors` is the first block of `before`.
  bool hang(task& t, task& before, successor_block& successors, hazard why);
  /// Room for a successor behind `count` that fill their blocks. Null if `before` has
  /// ended, which it may have had to for want of room.
  [[nodiscard]] successor* add_room(task& before, std::uint32_t count);

  /// One more task that the program wants to end first.
  void add_asked(task& t, task_id before, bool manual);

  // scopes/fresh_memory.cpp
  [[nodiscard]] result<storage> make_fresh(std::int64_t bytes, std::uint64_t in,
                                           storage_id replaced);
  [[nodiscard]] result<tensor> next_version(const tensor& before, bool replaces);
  /// Runs tasks until nothing is in the way of a block, giving up what it replaces.
  [[nodiscard]] result<void> make_heap_room(std::uint64_t bytes, storage_id replaced);
  [[nodiscard]] error heap_deadlock(std::uint64_t bytes, storage_id replaced) const;
  /// Fresh memory is not held by its scope any more.
  void drop_token(storage_id id) noexcept;
  /// Gives back the oldest fresh memory that nobody holds or uses.
  void reclaim() noexcept;

  // replay/replay.cpp
  [[nodiscard]] result<void> check(captured_graph& g) const;
  live_replay& start_replay(const std::shared_ptr<captured_graph>& g,
                            const void* argument);
  /// Makes a replay's tasks wait for what was submitted before.
  void link_replay(live_replay& r);
  /// Keeps a task from starting while it is being wired; its edges so far.
  std::uint32_t& edges_of(live_replay& r, std::uint32_t index);
  void link_after(live_replay& r, const live_replay& earlier);
  void link_looked_up(live_replay& r);
  void publish_replay(live_replay& r);
  /// Puts the accesses of replays into the map, for look-ups that are to come, and leaves
  /// room for so many more.
  void show_replays(std::size_t accesses);
  [[nodiscard]] std::size_t unshown_accesses() const noexcept;
  void show_task(const live_replay& r, std::uint32_t index);
  /// What a failed task wrote is to be found by those that come after.
  void keep_failed(const live_replay& r, std::uint32_t index, task_id root);

  [[nodiscard]] successor_block* take_block();
  void return_block(successor_block& block) noexcept;
  /// Those beyond the first of a task with so many successors.
  void return_blocks(const task& t, std::uint32_t successors) noexcept;

  /// Tasks of all kinds that have ended. @threads{safe from any thread}
  [[nodiscard]] std::uint64_t ended_tasks() const noexcept;
  void start_watchdog();
  [[nodiscard]] result<void> wait_for(task_id id);
  /// Ids of live tasks that access the bytes; `failed` gets the oldest failure left in
  /// them.
  [[nodiscard]] std::vector<task_id> users(const footprint& bytes, bool readers_too,
                                           task_id& failed);

  engine_options options;
  std::uint32_t window;
  task_records records;                       ///< of the window
  task_batch slots;                           ///< likewise
  std::unique_ptr<task_history[]> histories;  ///< one per slot, if tasks are traced
  task_id next = 1;
  task_id oldest = 1;  ///< oldest task that has not been retired
  storage_table storages;
  std::uint64_t releases = 0;  ///< of storages
  scope_stack scopes;
  heap_ring heap;
  storage heap_memory;
  conflict_search search;
  std::deque<live_replay> replays;  ///< oldest first
  std::deque<live_recording> recordings;
  std::shared_ptr<captured_graph> recording;  ///< null: nothing is being recorded
  std::vector<std::uint32_t> touched;         ///< tasks that `edge_counts` counts for
  std::vector<std::uint32_t> edge_counts;
  std::uint64_t serial;                                  ///< of this engine
  std::vector<std::unique_ptr<successor_block>> blocks;  ///< beyond the first ones
  successor_block* free_blocks = nullptr;
  std::size_t most_blocks;
  std::vector<exclusion*> group_of_slot;
  std::vector<std::unique_ptr<exclusion>> groups;
  std::vector<exclusion*> free_groups;
  submitter_tally tallies;
  failure_log failures;
  trace tracer;
  scheduler workers;  // its threads end before anything else goes
  std::unique_ptr<watchdog> dog;
};

}  // namespace weir::runtime
