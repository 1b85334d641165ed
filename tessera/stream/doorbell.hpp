// SPDX-License-Identifier: Apache-2.0
/// @file
/// Lets threads of the program wait for what workers do, at no cost while nobody waits.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <mutex>

#include "weir/base/clock.hpp"

namespace weir::tessera {

/// @threads{safe from any thread}
class doorbell {
 public:
  /// What a waiting thread looks at has changed.
  void ring() noexcept {
    // Either the waiter sees the change in its last look or we see the waiter.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_relaxed) != 0) {
      { const std::lock_guard lock(mutex_); }
      changed_.notify_all();
    }
  }

  /// For `wait`: the end of a time that begins now; 0 and less: no limit.
  [[nodiscard]] static std::int64_t deadline_in(std::int64_t limit_ns) noexcept {
    const std::int64_t now = now_ns();
    const bool ends =
        limit_ns > 0 && limit_ns < std::numeric_limits<std::int64_t>::max() - now;
    return ends ? now + limit_ns : -1;
  }

  /// Until `ready()`, or the monotonic clock shows `deadline_ns`; negative: no limit.
  /// Returns what `ready` said last.
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
  static constexpr int looks = 200;  ///< a few microseconds, less than going to sleep

  std::atomic<unsigned> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace weir::tessera
