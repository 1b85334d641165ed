// SPDX-License-Identifier: Apache-2.0
/// @file
/// Failures of kernels, and the errors that waits report for them.
///
/// Two maps by task id: the errors of kernels that failed, and the answers for retired
/// tasks, whose records are gone. A poisoned task has no error of its own; its answer
/// names the failed task that it depends on. All functions may be called by any thread;
/// workers add failures while the submitter asks for answers.
#include "tasks/failure_log.hpp"

#include <fmt/core.h>

namespace weir::runtime {
namespace {

/// Forgets the oldest entries beyond the number `count`.
template <class Value>
void keep_newest(std::map<task_id, Value>& from, std::size_t count) {
  while (from.size() > count) {
    from.erase(from.begin());
  }
}

}  // namespace

// The message names the kernel and its task, and keeps the error of the kernel as the
// cause.
void failure_log::kernel_failed(task_id id, const char* name, error cause) {
  error failed =
      error(errc::kernel_failed,
            fmt::format("kernel failed \"{}\": expected task {} to succeed, found: {}",
                        name, id, cause.text()))
          .because(std::move(cause));
  const std::lock_guard lock(mutex_);
  failures_.emplace(id, std::make_shared<const error>(std::move(failed)));
}

error failure_log::answer(task_id id, const char* name, task_id root) const {
  const std::lock_guard lock(mutex_);
  return answer_locked(id, name, root);
}

/// Builds the error of a task that failed itself or was not run because task `root`
/// failed. The log keeps only a limited number of failures, so the cause of an old one
/// may be gone; the answer then only names it. The caller holds the lock.
error failure_log::answer_locked(task_id id, const char* name, task_id root) const {
  const auto found = failures_.find(root);
  if (found == failures_.end()) {
    return error(
        errc::upstream_failed,
        fmt::format(
            "task not run \"{}\": expected the inputs of task {}, found that task "
            "{} had failed",
            name, id, root));
  }
  if (id == root) {
    return *found->second;
  }
  return error(
             errc::upstream_failed,
             fmt::format("task not run \"{}\": expected the inputs of task {}, found: {}",
                         name, id, found->second->text()))
      .because(*found->second);
}

// The writer of the bytes is retired, so only its root is known.
error failure_log::tensor_answer(task_id root) const {
  const std::lock_guard lock(mutex_);
  const auto found = failures_.find(root);
  error out(errc::upstream_failed,
            fmt::format("tensor not written: expected its writers to succeed, found: {}",
                        found == failures_.end() ? fmt::format("task {} had failed", root)
                                                 : found->second->text()));
  return found == failures_.end() ? out : std::move(out).because(*found->second);
}

// The answer is made now, because the cause may be forgotten later.
void failure_log::retire(task_id id, const char* name, task_id root) {
  const std::lock_guard lock(mutex_);
  retired_.emplace(
      id,
      retired_task{root, std::make_shared<const error>(answer_locked(id, name, root))});
  keep_newest(retired_, max_records);
}

std::optional<error> failure_log::retired(task_id id) const {
  const std::lock_guard lock(mutex_);
  const auto found = retired_.find(id);
  return found == retired_.end() ? std::nullopt
                                 : std::optional<error>(*found->second.answer);
}

// Failures older than the limit are forgotten, and the task then counts as successful.
task_id failure_log::retired_root(task_id id) const {
  const std::lock_guard lock(mutex_);
  const auto found = retired_.find(id);
  return found == retired_.end() ? 0 : found->second.root;
}

/// Returns the oldest failure that was not reported yet. All failures so far count as
/// reported afterwards, so a wait for everything reports only one of them.
std::optional<error> failure_log::take_first() {
  const std::lock_guard lock(mutex_);
  const auto first = failures_.upper_bound(reported_);
  if (first == failures_.end()) {
    return std::nullopt;
  }
  std::optional<error> out(*first->second);
  reported_ = failures_.rbegin()->first;
  keep_newest(failures_, max_records);
  return out;
}

}  // namespace weir::runtime
