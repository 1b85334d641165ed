// SPDX-License-Identifier: Apache-2.0
/// @file
/// Which kernels failed, why, and which tasks were not run because of it.
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
  /// A kernel failed. Called before its task ends.
  void kernel_failed(task_id id, const char* name, error cause);
  /// What a wait for the task answers, `root` being the oldest failure that it depends on
  /// or itself.
  [[nodiscard]] error answer(task_id id, const char* name, task_id root) const;
  /// What a wait for a tensor answers that was written by a task with this failure.
  [[nodiscard]] error tensor_answer(task_id root) const;
  /// Keeps the answer for a task whose slot is about to be used again.
  void retire(task_id id, const char* name, task_id root);
  /// Answer for a task that has been retired, if it did not end well.
  [[nodiscard]] std::optional<error> retired(task_id id) const;
  /// Failure behind a task that has been retired; 0 if it ended well.
  [[nodiscard]] task_id retired_root(task_id id) const;
  /// Oldest failure since the last call, which it forgets; later waits for single tasks
  /// still find theirs.
  [[nodiscard]] std::optional<error> take_first();

 private:
  /// Failed tasks are few; poisoned ones can be many, so old ones are forgotten.
  static constexpr std::size_t kept = 65536;

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
