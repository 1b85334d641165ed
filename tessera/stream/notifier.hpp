// SPDX-License-Identifier: Apache-2.0
/// @file
/// Notifies threads of the program that wait for workers, at little cost while none
/// waits.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <mutex>

#include "weir/base/clock.hpp"

namespace weir::tessera {

/// Wakes threads that wait for a condition. @threads{safe from any thread}
class notifier {
 public:
  /// Wakes the waiting threads, because a condition that they wait for may have changed.
  void ring() noexcept {
    // The fences make sure that the waiter sees the change in its last check, or that
    // this thread sees the waiter.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_relaxed) != 0) {
      { const std::lock_guard lock(mutex_); }
      changed_.notify_all();
    }
  }

  /// Returns the deadline for `wait` that is `limit_ns` nanoseconds from now, or -1 for
  /// no limit if `limit_ns` is not positive.
  [[nodiscard]] static std::int64_t deadline_in(std::int64_t limit_ns) noexcept {
    const std::int64_t now = now_ns();
    const bool ends =
        limit_ns > 0 && limit_ns < std::numeric_limits<std::int64_t>::max() - now;
    return ends ? now + limit_ns : -1;
  }

  /// Waits until `ready()` returns true or the monotonic clock shows `deadline_ns`; a
  /// negative deadline means none. Returns the last result of `ready`.
  template <class Ready>
  bool wait(Ready&& ready, std::int64_t deadline_ns) {
    for (int i = 0; i < looks; ++i) {
      if (ready()) {
        return true;
      }
    }
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    bool done = ready();
    while (!done && (deadline_ns < 0 || now_ns() < deadline_ns)) {
      if (deadline_ns < 0) {
        changed_.wait(lock);
      } else {
        changed_.wait_for(lock, std::chrono::nanoseconds(deadline_ns - now_ns()));
      }
      done = ready();
    }
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
    return done;
  }

 private:
  /// Number of checks before sleeping: a few microseconds, less than a sleep costs.
  static constexpr int looks = 200;

  std::atomic<unsigned> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace weir::tessera
