// SPDX-License-Identifier: Apache-2.0
/// @file
/// The threads on which tasks, their deadlines and their callbacks run.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "capi/failure.hpp"

namespace weir::capi {

using deadline_clock = std::chrono::steady_clock;

/// The part of a task that the runtime uses.
class runtime_task {
 public:
  virtual ~runtime_task() = default;
  /// Ends the task with a failure, unless it has ended already.
  virtual void fail(failure why) = 0;

 private:
  friend class runtime;
  std::uint64_t number_ = 0;  ///< in the order of the launches
  std::optional<deadline_clock::time_point>
      deadline_;  ///< at which the task ends; absent for none
};

/// The runtime of the process. It is made at its first use and never destroyed, because
/// its threads may still run when the process ends. @threads{safe to call concurrently}
class runtime {
 public:
  /// Returns the runtime, which the first call makes.
  [[nodiscard]] static runtime& instance();
  runtime(const runtime&) = delete;
  runtime& operator=(const runtime&) = delete;

  /// Sets the numbers of threads; 0 requests the default. Returns false if the runtime
  /// was configured or used before.
  [[nodiscard]] bool configure(std::uint32_t workers, std::uint32_t dispatchers);
  /// Queues `work` for one of the workers. The task counts as unfinished until leave().
  /// At the deadline it ends with TGM_ERROR_TIMEOUT. @error{TGM_ERROR_IO, the runtime was
  /// shut down}
  [[nodiscard]] outcome<void> launch(const std::shared_ptr<runtime_task>& task,
                                     std::optional<deadline_clock::time_point> deadline,
                                     std::function<void()> work);
  /// Notes that a task has ended.
  void leave(const runtime_task& task);
  /// Queues a callback for one of the dispatchers.
  void dispatch(std::function<void()> callback);
  /// Implements tgm_runtime_shutdown_blocking().
  [[nodiscard]] std::uint64_t shut_down(std::chrono::milliseconds patience);

 private:
  /// In `closing`, no task can be launched any more, but launched ones go on.
  enum class phase : std::uint8_t { idle, configured, running, closing, shut_down };
  /// Jobs in order, and the condition on which their threads wait.
  struct queue {
    std::deque<std::function<void()>> jobs;  ///< work or callbacks, the oldest first
    std::condition_variable changed;         ///< for new jobs and for the shutdown
    bool started = false;                    ///< a thread serves the queue
  };

  runtime() = default;
  // Steps of the functions above; see runtime.cpp.
  void start(queue& q, const char* name, std::uint32_t threads);
  void serve(queue& q);
  void watch_deadlines();

  std::mutex mutex_;                    ///< protects everything below
  phase phase_ = phase::idle;           ///< how far its life has come
  std::uint32_t worker_count_ = 0;      ///< 0 for the default
  std::uint32_t dispatcher_count_ = 0;  ///< 0 for the default
  queue work_;                          ///< of the workers
  queue callbacks_;                     ///< of the dispatchers
  std::uint64_t launched_ = 0;          ///< number of the newest task
  /// Tasks that have not ended, by number.
  std::map<std::uint64_t, std::shared_ptr<runtime_task>> unfinished_;
  std::condition_variable task_left_;  ///< notified when a task ends
  /// Unfinished tasks that have a deadline; the number distinguishes equal deadlines.
  std::map<std::pair<deadline_clock::time_point, std::uint64_t>,
           std::shared_ptr<runtime_task>>
      deadlines_;
  std::condition_variable deadlines_changed_;  ///< notified when a deadline is added
  bool watching_ = false;                      ///< the thread of deadlines runs
};

}  // namespace weir::capi
