// SPDX-License-Identifier: Apache-2.0
/// @file
/// From the accesses of a new task to the tasks that it must wait for.
#pragma once

#include <cstdint>
#include <vector>

#include "map/dependency_map.hpp"
#include "map/predecessors.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::runtime {

/// Whether an access takes part in the order of tasks.
[[nodiscard]] inline bool is_ordered(const access& a) noexcept {
  return !a.bytes.empty() && a.mode != access_mode::none;
}

/// A TensorMap and what a submission needs beside it.
/// @threads{thread-compatible}
class conflict_search {
 public:
  /// Ids of live tasks differ modulo `window`, a power of two.
  conflict_search(std::uint32_t most_accesses, std::uint32_t window)
      : map_(most_accesses), predecessors_(window) {}

  [[nodiscard]] dependency_map& map() noexcept { return map_; }
  [[nodiscard]] const dependency_map& map() const noexcept { return map_; }

  /// Starts with a new task, which has no predecessors yet.
  void start(task_id by) {
    predecessors_.start(by);
    failure_ = 0;
  }
  /// Asks for the memory that look-ups of the access will need.
  void prefetch(const access& a) const noexcept { map_.prefetch(a.bytes); }
  /// Adds a predecessor, which has not been retired.
  void add(task_id before, hazard why) { predecessors_.add(before, why); }
  /// Adds the predecessors that one access asks for. With `prune`, accesses that a write
  /// covers are taken out of the map. @pre is_ordered(a)
  void look_up(const access& a, bool prune);
  /// Registers an access of the newest task.
  access_ref insert(const access& a, task_id task) {
    return map_.insert(a.bytes, a.mode != access_mode::read, task);
  }

  /// Predecessors of the task, each once.
  [[nodiscard]] const std::vector<predecessor_list::item>& found() const noexcept {
    return predecessors_.items();
  }
  /// Oldest failure that the task inherits from what failed tasks have written; 0 if
  /// none.
  [[nodiscard]] task_id failure() const noexcept { return failure_; }
  /// Accesses pruned so far.
  [[nodiscard]] std::uint64_t pruned() const noexcept { return pruned_; }

 private:
  void look_up_kind(const access& a, bool writers, hazard why, bool prune,
                    task_id& floor);

  dependency_map map_;
  predecessor_list predecessors_;
  std::vector<task_id> candidates_;
  std::vector<access_ref> covered_;
  task_id failure_ = 0;
  std::uint64_t pruned_ = 0;
};

}  // namespace weir::runtime
