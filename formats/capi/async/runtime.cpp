// SPDX-License-Identifier: Apache-2.0
/// @file
/// The threads of the runtime, and the C functions that configure it and shut it down.
///
/// One mutex protects all state. It is never held while work, a callback or a method of a
/// task runs, and tasks call the runtime without their own lock, so no lock order can be
/// violated. The threads are detached: the process may end while they run, and a library
/// cannot join threads at that time safely.
///
///   worker       runs the work of tasks; started by the first task
///   deadlines    ends tasks in time; started by the first deadline
///   dispatcher   calls callbacks; started by the first callback
#include "capi/async/runtime.hpp"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <string>
#include <thread>

namespace weir::capi {

namespace {

/// Returns the number of processors, limited to `at_most`, and at least 1.
/// A system that does not tell the number is taken for one with one processor.
std::uint32_t processors(std::uint32_t at_most) noexcept {
  return std::clamp(std::thread::hardware_concurrency(), 1u, at_most);
}

/// Starts a detached thread. All signals are blocked in it, so that the threads of the
/// program handle them. A thread inherits the mask of its creator, hence the change
/// around the call.
void start_thread(const std::string& name, std::function<void()> run) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  // `before` is put back even if no thread can be started.
  pthread_sigmask(SIG_BLOCK, &all, &before);
  std::thread thread;
  try {
    thread = std::thread(std::move(run));
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread.native_handle(), name.c_str());
  thread.detach();
}

/// Returns the failure of a call after the runtime was shut down.
failure shut_down_failure(const char* action) {
  return {TGM_ERROR_IO, std::string("cannot ") + action +
                            ": expected the runtime to run, found it shut down"};
}

}  // namespace

/// The object is never destroyed, so it may be used at any time of the process.
runtime& runtime::instance() {
  static auto* const one = new runtime();
  return *one;
}

/// The numbers of threads cannot change once a call or a task has relied on them.
bool runtime::configure(std::uint32_t workers, std::uint32_t dispatchers) {
  const std::lock_guard lock(mutex_);
  if (phase_ != phase::idle) {
    return false;
  }
  phase_ = phase::configured;
  worker_count_ = workers;
  dispatcher_count_ = dispatchers;
  return true;
}

/// Starts the threads of a queue. If the system refuses some of them, fewer suffice; if
/// it refuses the first one, the error is passed on.
void runtime::start(queue& q, const char* name, std::uint32_t threads) {
  for (std::uint32_t i = 0; i < threads; ++i) {
    // A thread that was started finds the queue, which lives as long as the runtime.
    try {
      start_thread(name + std::to_string(i), [this, &q] { serve(q); });
    } catch (const std::exception&) {
      if (!q.started) {
        throw;
      }
      return;
    }
    q.started = true;
  }
}

/// Registers the task before its work is queued, so that leave() and the deadline find
/// it. The first task starts the workers, and the first deadline its thread.
outcome<void> runtime::launch(const std::shared_ptr<runtime_task>& task,
                              std::optional<deadline_clock::time_point> deadline,
                              std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  // After the shutdown has begun, no task could be waited for.
  if (phase_ == phase::closing || phase_ == phase::shut_down) {
    return shut_down_failure("launch a task");
  }
  if (!work_.started) {
    start(work_, "tgm-work-", worker_count_ != 0 ? worker_count_ : processors(8));
    phase_ = phase::running;
  }
  if (deadline && !watching_) {
    start_thread("tgm-deadlines", [this] { watch_deadlines(); });
    watching_ = true;
  }
  // Numbers are unique and increase; 0 is a task that was never launched.
  task->number_ = ++launched_;
  task->deadline_ = deadline;
  unfinished_.emplace(task->number_, task);
  if (deadline) {
    // The number makes keys of equal deadlines different.
    deadlines_.emplace(std::pair(*deadline, task->number_), task);
    deadlines_changed_.notify_all();
  }
  work_.jobs.push_back(std::move(work));
  // Only one job was added, so one worker is enough.
  work_.changed.notify_one();
  return {};
}

/// Also wakes shut_down(), which waits until no task is left.
void runtime::leave(const runtime_task& task) {
  const std::lock_guard lock(mutex_);
  // A task that has reached its deadline is gone from the list already.
  if (task.deadline_) {
    deadlines_.erase({*task.deadline_, task.number_});
  }
  if (unfinished_.erase(task.number_) != 0) {
    task_left_.notify_all();
  }
}

/// The loop of a worker or dispatcher. Workers end at the shutdown. Dispatchers go on,
/// because callbacks of ended tasks must still be called.
void runtime::serve(queue& q) {
  const auto over = [&] { return &q == &work_ && phase_ == phase::shut_down; };
  for (;;) {
    // The lock is taken for each job, and released while the job runs.
    std::unique_lock lock(mutex_);
    q.changed.wait(lock, [&] { return over() || !q.jobs.empty(); });
    if (over()) {
      return;
    }
    std::function<void()> job = std::move(q.jobs.front());
    q.jobs.pop_front();
    lock.unlock();
    job();
  }
}

/// The loop of the thread that ends tasks at their deadlines. It sleeps until the first
/// deadline, and is woken when a task with a deadline is launched.
void runtime::watch_deadlines() {
  std::unique_lock lock(mutex_);
  for (;;) {
    // Without a deadline the thread waits for the next launch.
    if (deadlines_.empty()) {
      deadlines_changed_.wait(lock);
      continue;
    }
    const auto first = deadlines_.begin();
    const auto when = first->first.first;
    // An earlier deadline may arrive meanwhile, so the first one is looked up again.
    if (deadline_clock::now() < when) {
      deadlines_changed_.wait_until(lock, when);
      continue;
    }
    // The pointer keeps the task alive without the lock.
    const std::shared_ptr<runtime_task> task = std::move(first->second);
    deadlines_.erase(first);
    // Ending a task calls leave(), which takes the mutex.
    lock.unlock();
    task->fail({TGM_ERROR_TIMEOUT,
                "cannot wait for the task any longer: expected it to end in time, found "
                "it under way"});
    lock.lock();
  }
}

/// The first callback starts the dispatchers, which are separate from the workers: a
/// callback that blocks does not hold up tasks.
void runtime::dispatch(std::function<void()> callback) {
  const std::lock_guard lock(mutex_);
  if (!callbacks_.started) {
    start(callbacks_, "tgm-callback-",
          dispatcher_count_ != 0 ? dispatcher_count_ : processors(4));
  }
  // Callbacks wait in one queue, in the order in which their tasks ended.
  callbacks_.jobs.push_back(std::move(callback));
  callbacks_.changed.notify_one();
}

/// Stops accepting tasks, waits for those that run, and ends the others. Only the first
/// call does anything. Dropped jobs are destroyed after the mutex is released, because
/// they own tasks.
std::uint64_t runtime::shut_down(std::chrono::milliseconds patience) {
  std::deque<std::function<void()>> dropped;
  std::map<std::uint64_t, std::shared_ptr<runtime_task>> unfinished;
  {
    std::unique_lock lock(mutex_);
    if (phase_ == phase::closing || phase_ == phase::shut_down) {
      return 0;
    }
    // Tasks that were launched before still run; new ones are refused.
    phase_ = phase::closing;
    task_left_.wait_for(lock, patience, [&] { return unfinished_.empty(); });
    phase_ = phase::shut_down;
    // Both are taken out under the lock, so that every task is counted once.
    unfinished.swap(unfinished_);
    dropped.swap(work_.jobs);
    work_.changed.notify_all();
  }
  // Their work may go on, but its result is not wanted any more.
  for (const auto& [number, task] : unfinished) {
    failure why = shut_down_failure("finish the task");
    why.code = TGM_ERROR_CANCELLED;
    task->fail(std::move(why));
  }
  return unfinished.size();
}

}  // namespace weir::capi

using weir::capi::runtime;

extern "C" {

tgm_error tgm_runtime_configure(uint32_t workers, uint32_t dispatcher_workers,
                                uint64_t /*multipart_part_size_bytes*/) {
  return weir::capi::guarded(true, [&]() -> weir::capi::outcome<void> {
    // The part size of uploads has no meaning here.
    if (!runtime::instance().configure(workers, dispatcher_workers)) {
      return weir::capi::invalid_argument(
          "cannot configure the runtime: expected no call and no task before, found one");
    }
    return {};
  });
}

uint64_t tgm_runtime_shutdown_blocking(uint64_t timeout_ms) {
  // The limit prevents overflow when the time is added to a point in time.
  constexpr std::uint64_t longest = std::uint64_t{1000} * 60 * 60 * 24 * 365;
  return weir::capi::accessed(std::uint64_t{0}, [&] {
    return runtime::instance().shut_down(
        std::chrono::milliseconds(std::min(timeout_ms, longest)));
  });
}

}  // extern "C"
