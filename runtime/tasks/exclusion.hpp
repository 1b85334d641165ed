// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tasks that commute in any order: one runs at a time, whichever is ready first.
#pragma once

#include <deque>
#include <mutex>

#include "tasks/task.hpp"

namespace weir::runtime {

/// No worker waits: a task that finds another one inside is kept here and handed to who
/// leaves.
/// @threads{enter, leave: any worker; the rest belongs to the submitter}
class exclusion {
 public:
  /// True if the task may run now. Otherwise `leave` of another returns it some time.
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
  /// The task inside has run. Returns the one that is inside now and is to be run, or
  /// null.
  [[nodiscard]] task* leave() {
    const std::lock_guard lock(mutex_);
    inside_ = nullptr;
    if (!waiting_.empty()) {
      inside_ = waiting_.front();
      waiting_.pop_front();
    }
    return inside_;
  }

  std::size_t members = 0;  ///< tasks that have not been retired

 private:
  std::mutex mutex_;
  task* inside_ = nullptr;
  std::deque<task*> waiting_;
};

}  // namespace weir::runtime
