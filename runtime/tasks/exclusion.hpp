// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tasks that commute in any order: only one of them runs at a time, and the first that
/// is ready runs first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "tasks/task.hpp"

namespace weir::runtime {

/// Mutual exclusion between tasks without a worker that waits: a task that finds another
/// one inside is kept here, and the worker that ends the task inside gets it.
/// @threads{enter, leave: any worker; `members`: the submitter}
class exclusion {
 public:
  /// Returns true if the task may run now. Otherwise a later `leave` returns the task.
  [[nodiscard]] bool enter(task& t) {
    const std::lock_guard lock(mutex_);
    if (inside_ == nullptr) {
      inside_ = &t;
    }
    if (inside_ != &t) {
      waiting_.push_back(&t);
    }
    return inside_ == &t;
  }
  /// Called when the task inside is about to end. Returns the task that enters now and
  /// has to be run, or null. Does nothing if another task is inside.
  [[nodiscard]] task* leave(const task& t) {
    const std::lock_guard lock(mutex_);
    if (inside_ != &t) {
      return nullptr;
    }
    inside_ = nullptr;
    if (!waiting_.empty()) {
      inside_ = waiting_.front();
      waiting_.pop_front();
    }
    return inside_;
  }

  std::size_t members = 0;  ///< tasks of the group that have not been retired

 private:
  std::mutex mutex_;
  task* inside_ = nullptr;
  std::deque<task*> waiting_;
};

/// The groups of tasks that commute in any order. A group exists from its first task
/// until the last of its tasks has been retired.
///
/// Invariant: `group_of(t)` is set exactly while `t.exclusive` is true, and
/// `exclusion::members` counts those tasks.
/// @threads{the submitter. A worker reads `group_of(t)` of a task that it runs: the
/// submitter wrote it before it published the task}
class exclusion_groups {
 public:
  /// Makes places for the groups of `window` tasks.
  explicit exclusion_groups(std::uint32_t window) : group_of_slot_(window) {}

  /// One place for each slot of the window, for `task_batch::groups`.
  [[nodiscard]] exclusion** places() noexcept { return group_of_slot_.data(); }
  /// Puts the task into the group of `companion`, or into a new group if that is null.
  void join(task& t, const task* companion);
  /// Takes a task that is being retired out of its group.
  void leave(task& t) noexcept;

 private:
  std::vector<exclusion*> group_of_slot_;
  std::vector<std::unique_ptr<exclusion>> groups_;
  std::vector<exclusion*> free_;  ///< groups without members
};

}  // namespace weir::runtime
