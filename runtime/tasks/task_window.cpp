// SPDX-License-Identifier: Apache-2.0
/// @file
/// Makes room for new tasks and retires those that have ended.
///
/// The window as a ring of records, with ids that grow:
///
///       oldest_                                  next_
///   ... [ ended | ended | runs | waits | ended ] (free slots)
///         ^ retired next                         ^ prepared next
///
/// A task that has ended behind one that runs keeps its slot until that one has ended,
/// since retirement goes in the order of ids.
#include "tasks/task_window.hpp"

#include <algorithm>
#include <span>

namespace weir::runtime {
namespace {

/// Asking whether a task has ended takes its cache line from the worker that runs it. The
/// newest tasks are therefore not asked. When tasks are asked, more of them are retired
/// than have been submitted since the last time, so that a backlog shrinks.
constexpr std::uint64_t newest_not_asked = 128;
constexpr std::uint32_t max_retired_per_look = 64;
/// Largest number of slots that a full window waits for at once.
constexpr std::uint64_t max_freed_at_once = 64;

}  // namespace

task_window::task_window(const engine_options& options, dependency_map& map,
                         successor_pool& blocks, exclusion_groups& groups,
                         failure_log& failures, trace& tracer, scheduler& workers)
    : capacity_(options.window),
      mask_(options.window - 1),
      next_(options.first_task),
      oldest_(options.first_task),
      records_(options.window, engine::max_capture),
      map_(map),
      blocks_(blocks),
      groups_(groups),
      failures_(failures),
      tracer_(tracer),
      workers_(workers) {
  records_.join(slots_);
  slots_.groups = groups.places();
  // Only the address is taken; the workers are made later.
  slots_.owner = &workers;
  if (options.trace.mode != trace_mode::off) {
    histories_ = std::make_unique<task_history[]>(options.window);
  }
}

/// Called before each submission. Asks from time to time whether tasks have ended, which
/// keeps the window from filling up; runs tasks if room is needed now.
void task_window::make_space(std::uint32_t tasks, std::size_t accesses) {
  // The cheap look: at most 64 old tasks, and only if the window holds many.
  if (tasks == 1 && next_ % submissions_per_look == 0 &&
      next_ - oldest_ >= newest_not_asked) {
    retire(max_retired_per_look);
  }
  if (tasks != 1 || is_full(tasks) || map_.space() < accesses) {
    retire_ended();
  }
  if (is_full(tasks) || map_.space() < accesses) {
    wait_for_space(tasks, accesses);
  }
}

/// Runs the oldest tasks until there is room. The oldest task never waits for a newer
/// one, so this comes to an end.
void task_window::wait_for_space(std::uint32_t tasks, std::size_t accesses) {
  if (is_full(tasks)) {
    run_until_not_full(tasks);
  }
  if (map_.space() < accesses) {
    tally<std::uint64_t>(access_stalls_);
  }
  while (is_full(tasks) || map_.space() < accesses) {
    run_oldest();
  }
}

// Waits for an eighth of the window at once, within the limits, but at least for what is
// needed.
void task_window::run_until_not_full(std::uint32_t tasks) {
  tally<std::uint64_t>(window_stalls_);
  // Several tasks are waited for at once: starting and stopping to run tasks on this
  // thread costs more than many tasks do.
  const std::uint64_t count = std::clamp<std::uint64_t>(
      capacity_ / 8, tasks, std::max(max_freed_at_once, std::uint64_t{tasks}));
  run_until_ended(std::min(oldest_ + count, next_) - 1);
}

void task_window::run_until_ended(task_id id) {
  workers_.help_until_ended(find(id));
  retire_ended();
}

// Batches are a list from old to new, because they are retired in this order.
void task_window::add_batch(live_batch& batch) noexcept {
  const std::uint64_t count = batch.end - batch.first;
  batch.newer = nullptr;
  (oldest_batch_ == nullptr ? oldest_batch_ : newest_batch_->newer) = &batch;
  newest_batch_ = &batch;
  next_ += count;
  tally(submitted_, count);
}

// The part of the history that is known at the submission.
void task_window::begin_history(task& t, task_history& h, std::int64_t now) const {
  h = task_history{};
  h.submitted = now;
  h.pulse = tracer_.pulse();
  h.keep = tracer_.keeps();
  t.history = &h;
}

/// Retires in the order of ids, batches and single tasks alike.
void task_window::retire(std::uint32_t max_tasks) {
  while (oldest_ < next_) {
    // The next task to be retired belongs to a replay.
    if (oldest_batch_ != nullptr && oldest_batch_->first <= oldest_) {
      if (!retire_oldest_batch()) {
        return;
      }
      continue;
    }
    task& t = slots_.tasks[oldest_ & mask_];
    if (max_tasks-- == 0 || !t.ended()) {
      return;
    }
    retire_one(t);
  }
}

/// Gives back what a task held; see the class comment.
void task_window::clean_up(task& t) {
  const task_id root = t.root.load(std::memory_order_relaxed);
  if (root != 0) {
    failures_.retire(t.id, t.name, root);
  }
  // The map keeps the failure of the task with the bytes that it should have written.
  map_.retire(t.accesses, root);
  t.accesses = 0;
  if (t.exclusive) {
    groups_.leave(t);
  }
  const std::uint32_t count =
      t.successors.load(std::memory_order_relaxed) & (task::closed - 1);
  if (count > successor_block::capacity) {
    blocks_.give_back_all(t, count);
  }
}

/// Skips over spent tasks of a batch in one scan, because nearly all of a replay are.
bool task_window::retire_oldest_batch() {
  live_batch& batch = *oldest_batch_;
  while (true) {
    const std::span left(batch.tasks + (oldest_ - batch.first),
                         batch.tasks + (batch.end - batch.first));
    const auto next_left = std::find_if(left.begin(), left.end(),
                                        [](const task& t) { return !t.is_spent(); });
    oldest_ += static_cast<task_id>(next_left - left.begin());
    if (next_left == left.end()) {
      break;
    }
    task& t = *next_left;
    // A replay may be retired in parts.
    if (!t.ended()) {
      return false;
    }
    const task_id root = t.root.load(std::memory_order_relaxed);
    if (root != 0) {
      owner_->retire_failed(batch, static_cast<std::uint32_t>(oldest_ - batch.first),
                            root);
    }
    retire_one(t);
  }
  // Read before the owner takes the batch apart.
  oldest_batch_ = batch.newer;
  owner_->retire_batch(batch);
  return true;
}

}  // namespace weir::runtime
