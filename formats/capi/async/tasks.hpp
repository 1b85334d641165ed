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

/// What a task may make. std::monostate is the result of a task that makes nothing.
using task_value =
    std::variant<std::monostate, std::uint64_t, owned_bytes, std::vector<owned_bytes>,
                 message_handle, std::unique_ptr<tgm_metadata_t>,
                 std::unique_ptr<tgm_async_file_t>,
                 std::unique_ptr<tgm_async_streaming_encoder_t>>;

/// A task as those who carry it out, wait for it, and end it early share it.
/// @threads{safe to call concurrently}
class task_state final : public runtime_task,
                         public std::enable_shared_from_this<task_state> {
 public:
  /// Ends the task, unless it has ended.
  void end(outcome<task_value> with);
  /// Ends the task early, unless it has ended, and asks its work to stop.
  void fail(failure why) override;
  /// The token by which the work of the task learns that the task has ended early.
  [[nodiscard]] std::stop_token stop_token() const { return stop_.get_token(); }
  [[nodiscard]] bool ended() const;
  /// @error{TGM_ERROR_INVALID_ARG, there is one already, or the task was joined}
  [[nodiscard]] outcome<void> set_completion(std::function<void()> callback);
  /// Waits until the task has ended. `take` gets a value that it moves from, or returns
  /// false and leaves it.
  [[nodiscard]] outcome<void> join(const std::function<bool(task_value&)>& take);

 private:
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<outcome<task_value>> result_;
  bool joined_ = false;
  bool has_callback_ = false;
  std::function<void()> callback_;
  std::stop_source stop_;
};

/// What a token and the tasks that were launched with it share.
/// @threads{safe to call concurrently}
class cancellation {
 public:
  /// Ends the tasks of the token, those that are attached later included.
  void cancel();
  [[nodiscard]] bool cancelled() const;
  /// False if the token is cancelled.
  [[nodiscard]] bool attach(const std::shared_ptr<task_state>& task);

 private:
  mutable std::mutex mutex_;
  bool cancelled_ = false;
  std::vector<std::weak_ptr<task_state>> tasks_;
  std::size_t next_sweep_ = 16;  ///< how many tasks it takes to look for ended ones
};
[[nodiscard]] failure cancelled();

/// Who may end a task early.
struct task_limits {
  const tgm_cancellation_token_t* token;
  std::uint64_t timeout_ms;
};

/// Has the runtime carry out `run`, which ends the task unless somebody else did, and
/// hands the task out.
[[nodiscard]] outcome<void> launch(const std::shared_ptr<task_state>& task,
                                   const task_limits& limits, tgm_async_task_t** out,
                                   std::function<void()> run);
/// Has the runtime carry out work that gives the result of a task. The work gets a stop
/// token; a stop is requested when the task ends early.
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

struct tgm_async_task_t {
  std::shared_ptr<weir::capi::task_state> state;
};

struct tgm_cancellation_token_t {
  std::shared_ptr<weir::capi::cancellation> shared =
      std::make_shared<weir::capi::cancellation>();
};
