// SPDX-License-Identifier: Apache-2.0
/// @file
/// State of an engine: the window of tasks, the TensorMap, the storages and the
/// scheduler.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "tasks/dependency_map.hpp"
#include "tasks/failure_log.hpp"
#include "tasks/predecessors.hpp"
#include "tasks/scheduler.hpp"
#include "tasks/storage_table.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::runtime {

/// @threads{the submitter, but for counters and wake}
struct engine::impl {
  explicit impl(const engine_options& o);

  /// Counters of the submitter, readable from any thread.
  struct submitter_tally {
    std::atomic<std::uint64_t> submitted{0};
    std::atomic<std::uint64_t> edges_raw{0};
    std::atomic<std::uint64_t> edges_war{0};
    std::atomic<std::uint64_t> edges_waw{0};
    std::atomic<std::uint64_t> lookups{0};
    std::atomic<std::uint64_t> exact_tests{0};
    std::atomic<std::uint64_t> maybe{0};
    std::atomic<std::uint64_t> pruned{0};
    std::atomic<std::uint64_t> window_stalls{0};
  };

  [[nodiscard]] task& slot(task_id id) noexcept { return tasks[id & (window - 1)]; }
  [[nodiscard]] bool in_window(task_id id) const noexcept {
    return id >= oldest && id < next;
  }
  [[nodiscard]] bool has_ended(task_id id) noexcept {
    return id < oldest || (id < next && slot(id).ended());
  }

  [[nodiscard]] result<void> check(std::span<const access> accesses) const;
  /// Waits until the slot of the next task is free.
  void make_room();
  /// Gives back what ended tasks hold, oldest first, at most `most` of them.
  void retire(std::uint32_t most);
  void retire_oldest();
  task& prepare(const char* name, const void* captures, std::size_t size,
                task::call_fn fn);
  /// Finds the predecessors of an access, and the failure that it inherits.
  void gather(task& t, const access& a);
  void gather_kind(task& t, const access& a, bool writers, hazard why, task_id& floor);
  void register_accesses(task& t, std::span<const access> accesses);
  /// Hangs the task into its predecessors' lists. Returns how many it waits for.
  std::int32_t wire(task& t);
  [[nodiscard]] edge& edge_of(task& t, std::uint32_t index);
  void return_edges(task& t);

  [[nodiscard]] result<void> wait_for(task_id id);
  /// Ids of live tasks that access the bytes; `failed` gets the oldest failure left in
  /// them.
  [[nodiscard]] std::vector<task_id> users(const footprint& bytes, bool readers_too,
                                           task_id& failed);

  engine_options options;
  std::uint32_t window;
  std::unique_ptr<task[]> tasks;
  std::unique_ptr<task_record[]> histories;  ///< one per slot, if tasks are traced
  task_id next = 1;
  task_id oldest = 1;  ///< oldest task that has not been retired
  storage_table storages;
  dependency_map map;
  predecessor_list predecessors;
  std::vector<task_id> candidates;
  std::vector<std::uint32_t> covered;
  std::vector<std::unique_ptr<edge_chunk>> chunks;
  edge_chunk* free_chunks = nullptr;
  submitter_tally tallies;
  failure_log failures;
  trace tracer;
  scheduler workers;  // last: its threads end before anything else goes
};

}  // namespace weir::runtime
