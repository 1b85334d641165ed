// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tasks and cancellation tokens.
#pragma once

#include <tensogram/tensogram.h>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <variant>
#include <vector>

#include "capi/async/handles.hpp"
#include "capi/async/runtime.hpp"
#include "capi/decode.hpp"

namespace weir::capi {

/// The possible results of a task; std::monostate stands for no result.
using task_value =
    std::variant<std::monostate, std::uint64_t, owned_bytes, std::vector<owned_bytes>,
                 message_handle, std::unique_ptr<tgm_metadata_t>,
                 std::unique_ptr<tgm_async_file_t>,
                 std::unique_ptr<tgm_async_streaming_encoder_t>>;

/// A task, shared by the threads that carry it out, wait for it, or end it early.
/// @threads{safe to call concurrently}
class task_state final : public runtime_task,
                         public std::enable_shared_from_this<task_state> {
 public:
  /// Ends the task with a result, unless it has ended already.
  void end(outcome<task_value> with);
  /// Ends the task early, unless it has ended already, and asks its work to stop.
  void fail(failure why) override;
  /// Returns the token by which the work learns that the task has ended early.
  [[nodiscard]] std::stop_token stop_token() const { return stop_.get_token(); }
  /// Returns whether the task has ended, for whatever reason.
  [[nodiscard]] bool ended() const;
  /// Sets the function to be called when the task has ended.
  /// @error{TGM_ERROR_INVALID_ARG, a function was set before, or the task was joined}
  [[nodiscard]] outcome<void> set_completion(std::function<void()> callback);
  /// Waits until the task has ended and passes its value to `take`, which moves from it
  /// and returns true, or leaves it and returns false.
  [[nodiscard]] outcome<void> join(const std::function<bool(task_value&)>& take);

 private:
  mutable std::mutex mutex_;       ///< for the members below, except `stop_`
  std::condition_variable ended_;  ///< notified at the end
  std::optional<outcome<task_value>>
      result_;                      ///< absent until the end; moved from after a join
  bool joined_ = false;             ///< the result was handed out
  bool has_callback_ = false;       ///< a callback was set, perhaps called
  std::function<void()> callback_;  ///< called at the end; null afterwards
  std::stop_source stop_;           ///< asks the work to stop
};

/// The state that a token shares with the tasks that were launched with it. @threads{safe
/// to call concurrently}
class cancellation {
 public:
  /// Ends the tasks of the token, including those that are attached later.
  void cancel();
  /// Returns whether cancel() was called.
  [[nodiscard]] bool cancelled() const;
  /// Adds a task. Returns false if the token is cancelled.
  [[nodiscard]] bool attach(const std::shared_ptr<task_state>& task);

 private:
  mutable std::mutex mutex_;                      ///< for the members below
  bool cancelled_ = false;                        ///< set once
  std::vector<std::weak_ptr<task_state>> tasks_;  ///< of which some may have ended
  std::size_t next_sweep_ = 16;  ///< length of the list at which ended tasks are removed
};
/// Returns the failure of a task that was cancelled.
[[nodiscard]] failure cancelled();

/// The conditions under which a task ends early.
struct task_limits {
  const tgm_cancellation_token_t* token;  ///< may be null
  std::uint64_t timeout_ms;               ///< 0 for none
};

/// Queues `run`, which ends the task unless something else has ended it, and hands the
/// task to the caller.
[[nodiscard]] outcome<void> launch(const std::shared_ptr<task_state>& task,
                                   const task_limits& limits, tgm_async_task_t** out,
                                   std::function<void()> run);
/// Queues work whose result is that of a new task. The work gets a stop token; a stop is
/// requested when the task ends early.
template <class Work>
outcome<void> launch_work(const task_limits& limits, tgm_async_task_t** out, Work work) {
  auto task = std::make_shared<task_state>();
  return launch(task, limits, out, [task, work = std::move(work)] {
    if (!task->ended()) {
      task->end(without_exceptions(
          [&]() -> outcome<task_value> { return work(task->stop_token()); }));
    }
  });
}

}  // namespace weir::capi

/// The handle of a task. It may be freed before the task ends.
struct tgm_async_task_t {
  std::shared_ptr<weir::capi::task_state> state;
};

/// The handle of a token. Tasks keep the shared state.
struct tgm_cancellation_token_t {
  std::shared_ptr<weir::capi::cancellation> shared =
      std::make_shared<weir::capi::cancellation>();
};
