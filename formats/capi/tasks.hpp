// SPDX-License-Identifier: Apache-2.0
/// @file
/// What stands behind tasks and tokens of <weir/tgm.h>.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "capi/handles.hpp"

struct tgm_token {
  std::shared_ptr<std::atomic<bool>> cancelled =
      std::make_shared<std::atomic<bool>>(false);
};

namespace weir::formats {

/// A task as those who carry it out, wait for it and cancel it share it.
class task_state {
 public:
  /// What a task makes; nullptr where it makes no message.
  using outcome = result<std::unique_ptr<tgm_message>>;

  explicit task_state(const tgm_token* token)
      : token_(token != nullptr ? token->cancelled : nullptr) {}

  void cancel() noexcept { cancelled_ = true; }
  [[nodiscard]] bool cancelled() const noexcept {
    return cancelled_ || (token_ && *token_);
  }
  /// Ends the task; called once, by who carries it out.
  void end(outcome with, tgm_done done, void* context);
  [[nodiscard]] bool ended() const;
  /// Until it has ended and `done` has returned.
  void wait() const;
  /// Waits, 0 ms for as long as it takes, and hands out what the task made, once.
  [[nodiscard]] tgm_error take(std::uint32_t timeout_ms,
                               std::unique_ptr<tgm_message>& to);

 private:
  std::atomic<bool> cancelled_ = false;
  std::shared_ptr<const std::atomic<bool>> token_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::optional<outcome> outcome_;
  bool taken_ = false;
  bool told_ = false;
};

[[nodiscard]] error cancelled_task();
/// Runs what returns an outcome and lets no exception out.
template <class Run>
task_state::outcome carried_out(const Run& run) {
  try {
    return run();
  } catch (const std::exception& failure) {
    return error(errc::out_of_memory,
                 std::string("cannot go on: expected no exception, found \"") +
                     failure.what() + "\"");
  }
}

}  // namespace weir::formats

struct tgm_task {
  std::shared_ptr<weir::formats::task_state> state;
  std::thread thread;  ///< of its own, or none

  explicit tgm_task(std::shared_ptr<weir::formats::task_state> s) : state(std::move(s)) {}
  tgm_task(const tgm_task&) = delete;
  tgm_task& operator=(const tgm_task&) = delete;
  ~tgm_task() {
    state->cancel();
    if (thread.joinable()) {
      thread.join();
    } else {
      state->wait();
    }
  }
};
