// SPDX-License-Identifier: Apache-2.0
/// @file
/// Which kernels failed and why, and which tasks were not run because of it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "weir/runtime/engine.hpp"

namespace weir::runtime {

/// @threads{safe from any thread}
class failure_log {
 public:
  /// Notes that a kernel failed. Called before its task ends.
  void kernel_failed(task_id id, const char* name, error cause);
  /// Returns the error for a wait for the task. `root` is the oldest failed task that it
  /// depends on, or the task itself.
  [[nodiscard]] error answer(task_id id, const char* name, task_id root) const;
  /// Returns the error for a wait for a tensor that a task with this failure should have
  /// written.
  [[nodiscard]] error tensor_answer(task_id root) const;
  /// Keeps the error of a task that is being retired, whose record will be used again.
  void retire(task_id id, const char* name, task_id root);
  /// Returns the error of a retired task, if it failed or was poisoned.
  [[nodiscard]] std::optional<error> retired(task_id id) const;
  /// Returns the failed task that a retired task depended on; 0 if it succeeded.
  [[nodiscard]] task_id retired_root(task_id id) const;
  /// Returns the oldest failure since the last call and counts all failures so far as
  /// reported. Waits for single tasks still find their errors later.
  [[nodiscard]] std::optional<error> take_first();

 private:
  /// Number of errors that are kept. Failed tasks are few, but poisoned ones can be many,
  /// so old errors are forgotten.
  static constexpr std::size_t max_records = 65536;

  [[nodiscard]] error answer_locked(task_id id, const char* name, task_id root) const;

  mutable std::mutex mutex_;
  struct retired_task {
    task_id root;
    std::shared_ptr<const error> answer;
  };

  std::map<task_id, std::shared_ptr<const error>> failures_;
  std::map<task_id, retired_task> retired_;
  task_id reported_ = 0;  ///< failures up to this id have been taken
};

}  // namespace weir::runtime
