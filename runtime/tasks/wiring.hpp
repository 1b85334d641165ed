// SPDX-License-Identifier: Apache-2.0
/// @file
/// From the accesses of a new task to its edges.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <utility>

#include "map/conflict_search.hpp"
#include "map/tally.hpp"
#include "tasks/exclusion.hpp"
#include "tasks/failure_log.hpp"
#include "tasks/scheduler.hpp"
#include "tasks/storage_table.hpp"
#include "tasks/successor_pool.hpp"
#include "tasks/task_window.hpp"

namespace weir::runtime {

/// Finds the predecessors of a new task, registers its accesses for later tasks, and
/// makes the task a successor of each predecessor that has not ended.
///
/// One of the `enter_...` functions is called first; it finds and registers. `add_asked`
/// may add predecessors. `connect` then writes the edges. Between the first and the last
/// of these calls no other task may be entered, because the predecessors are kept in the
/// one `conflict_search`.
///
/// An edge is a place in the list of successors of the earlier task. The submitter alone
/// writes such lists; the worker that ends the task reads its list. The two meet in
/// `task::successors`, which counts the successors:
///
/// 1. The submitter loads the count with acquire order, writes the new successor into the
///    place behind the last one, and then replaces the count by count + 1
///    (`scheduler::count_successor`, a compare-and-exchange with release order).
/// 2. The worker that ends the task exchanges the count for `task::closed` with acquire
///    order, and releases as many successors as the count said.
///
/// If the worker is first, the exchange of the submitter fails: the task has ended, there
/// is no edge, and the submitter takes over the failure of the ended task, if there is
/// one (`inherit_failure`). If the submitter is first, the worker sees the successor. An
/// edge is therefore never lost and never released twice. With a single worker the
/// submitter is also the worker, and plain loads and stores do.
///
/// The new task cannot start in the middle of this: `task::pending` holds
/// `wiring_guard`, from which ended predecessors take 1 each. The caller of `connect`
/// takes away the rest: `wiring_guard` minus the number of edges.
/// @threads{the submitter; the counters are safe from any thread}
class wiring {
 public:
  /// `workers` may be constructed later: it is used only when tasks exist.
  wiring(conflict_search& search, storage_table& storages, task_window& window,
         exclusion_groups& groups, successor_pool& blocks, failure_log& failures,
         scheduler& workers) noexcept
      : search_(search),
        storages_(storages),
        window_(window),
        groups_(groups),
        blocks_(blocks),
        failures_(failures),
        workers_(workers) {}
  wiring(const wiring&) = delete;
  wiring& operator=(const wiring&) = delete;

  /// Enters a task all of whose accesses are `is_plain`.
  void enter_plain(task& t, std::span<const access> accesses);
  /// Enters a task with accesses of any mode.
  void enter_any(task& t, std::span<const access> accesses);
  /// Enters a task of a manual scope: its accesses only keep their storages.
  void enter_manual(task& t, std::span<const access> accesses);
  /// Adds a predecessor that the program named. In a manual scope its failure passes to
  /// the task.
  void add_asked(task& t, task_id before, bool manual);
  /// Finds the predecessors of a task whose accesses will not be registered. Older
  /// accesses stay in the map even if a write of this task covers them.
  void look_up(task& t, std::span<const access> accesses) {
    look_up(t, accesses, false, nullptr);
  }
  /// Returns true if the task that was entered last has predecessors.
  [[nodiscard]] bool found_any() const noexcept { return !search_.found().empty(); }

  /// Writes the edges of the task that was entered last, and returns how many there are.
  /// Predecessors that have ended already get none.
  [[nodiscard]] std::uint32_t connect(task& t) {
    return window_.has_batches() ? connect_anywhere(t) : connect_in_slots(t);
  }
  /// Does the same while no replay is in flight: each record lies in its slot.
  [[nodiscard]] std::uint32_t connect_in_slots(task& t);
  /// Writes one edge. Returns false if `before` has ended.
  bool connect_one(task& t, task& before, hazard why);
  /// Notes on the board, for the watchdog, which predecessors the task that was entered
  /// last waits for. @pre the engine has a watchdog
  void show_waits(const task& t) const;

  /// Counts edges that were written without these functions.
  void count_edges(hazard why, std::uint64_t count) noexcept {
    tally(edges_[static_cast<std::size_t>(why)], count);
  }
  /// Edges so far, by the reason for them.
  [[nodiscard]] std::uint64_t edges(hazard why) const noexcept {
    return edges_[static_cast<std::size_t>(why)].load(std::memory_order_relaxed);
  }
  /// Accesses looked up so far.
  [[nodiscard]] const std::atomic<std::uint64_t>& lookups() const noexcept {
    return lookups_;
  }
  /// Edges that found no block of successors, so that their predecessor was run instead.
  [[nodiscard]] const std::atomic<std::uint64_t>& edge_stalls() const noexcept {
    return edge_stalls_;
  }

 private:
  /// Finds predecessors and the failure that the task inherits from bytes that failed
  /// tasks wrote. With `prune`, accesses that a write covers are taken out of the map.
  /// `grouped` is the access that commutes in any order, or null.
  void look_up(task& t, std::span<const access> accesses, bool prune,
               const access* grouped);
  /// Remembers the task as a user of storages whose accesses are not in the map, or will
  /// not be looked for there: `release` waits for it.
  void keep_storages(const task& t, std::span<const access> accesses, bool manual);
  /// Writes the edges while replays are in flight.
  std::uint32_t connect_anywhere(task& t);
  template <class Find>
  std::uint32_t connect_found(task& t, Find&& find);
  /// Writes one edge; `successors` is the first block of `before`.
  bool add_successor(task& t, task& before, successor_block& successors, hazard why);
  /// Returns the place of the successor behind `count` that fill their blocks. Returns
  /// null if `before` has ended; if all blocks are in use, it is run to its end first.
  [[nodiscard]] successor* add_place(task& before, std::uint32_t count);
  /// Passes the failure of a predecessor that has ended on, if the reason for the edge
  /// asks for it.
  static void inherit_failure(task& t, const task& ended, hazard why) noexcept;

  conflict_search& search_;
  storage_table& storages_;
  task_window& window_;
  exclusion_groups& groups_;
  successor_pool& blocks_;
  failure_log& failures_;
  scheduler& workers_;
  std::array<std::atomic<std::uint64_t>, hazards> edges_{};
  std::atomic<std::uint64_t> lookups_{0};
  std::atomic<std::uint64_t> edge_stalls_{0};
};

/// Enters the accesses of an ordinary task in the map, which finds its predecessors at
/// the same time. If a writer of its input has failed and left the window, the task is
/// poisoned at once.
[[gnu::always_inline]] inline void wiring::enter_plain(task& t,
                                                       std::span<const access> accesses) {
  search_.start(t.id);
  search_.enter_plain(accesses, t.id);
  t.accesses = static_cast<std::uint16_t>(accesses.size());
  if (search_.failure() != 0) {
    t.poison(search_.failure());
  }
  tally<std::uint64_t>(lookups_, accesses.size());
  if (storages_.any_fresh()) {
    keep_storages(t, accesses, false);
  }
}

inline void wiring::enter_manual(task& t, std::span<const access> accesses) {
  search_.start(t.id);
  t.accesses = 0;
  keep_storages(t, accesses, true);
}

/// Adds a predecessor that the caller named. One that has left the window needs no edge.
/// In a manual scope its failure is passed on here, because no access does it.
inline void wiring::add_asked(task& t, task_id before, bool manual) {
  if (before >= window_.oldest()) {
    search_.add(before, manual ? hazard::manual : hazard::asked);
  } else if (const task_id root = manual ? failures_.retired_root(before) : 0;
             root != 0) {
    t.poison(root);
  }
}

/// Adds an edge from `before` to `t`. The submitter writes the place first and counts it
/// afterwards, so a worker that sees the count finds the place written. If `before` has
/// closed its list in between, the edge is not needed, and a block that was taken for it
/// is given back. Returns whether there is an edge now.
[[gnu::always_inline]] inline bool wiring::add_successor(task& t, task& before,
                                                         successor_block& successors,
                                                         hazard why) {
  const std::uint32_t count = before.successors.load(std::memory_order_acquire);
  successor* place = nullptr;
  if (count < successor_block::capacity) {
    place = &successors.tasks[count];
  } else if (count < task::closed) {
    place = add_place(before, count);
  }
  if (place != nullptr) {
    *place = successor(t, carries_failure(why));
    if (workers_.count_successor(before, count)) {
      tally<std::uint64_t>(edges_[static_cast<std::size_t>(why)]);
      return true;
    }
    if (count >= successor_block::capacity && count % successor_block::capacity == 0) {
      blocks_.give_back(*successors.newest);
    }
  }
  inherit_failure(t, before, why);
  return false;
}

template <class Find>
[[gnu::always_inline]] inline std::uint32_t wiring::connect_found(task& t, Find&& find) {
  std::uint32_t edges = 0;
  for (const predecessor_list::item p : search_.found()) {
    const auto [before, successors] = find(p.id);
    edges += static_cast<std::uint32_t>(add_successor(t, *before, *successors, p.why));
  }
  return edges;
}

[[gnu::always_inline]] inline std::uint32_t wiring::connect_in_slots(task& t) {
  task* const tasks = window_.slots().tasks;
  successor_block* const successors = window_.slots().successors;
  const std::uint64_t mask = window_.capacity() - 1;
  return connect_found(t, [=](task_id id) {
    return std::pair(tasks + (id & mask), successors + (id & mask));
  });
}

}  // namespace weir::runtime
