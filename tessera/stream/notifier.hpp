// SPDX-License-Identifier: Apache-2.0
/// @file
/// A notifier for threads of the program that wait for workers. It costs a worker one
/// fence and one load while no thread waits.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <mutex>

#include "weir/base/clock.hpp"

namespace weir::tessera {

/// Wakes threads that wait for a condition.
///
/// The notifier knows nothing of the conditions: each waiting thread checks its own
/// whenever any has changed. This suits a context, where few threads wait and each waits
/// for a counter or a flag that a worker sets.
/// @threads{safe from any thread}
class notifier {
 public:
  /// Wakes the waiting threads, because a condition that they wait for may have changed.
  void ring() noexcept {
    // A waiter counts itself and then checks its condition. This thread has changed the
    // condition and then reads the count. With a fence between the two steps on both
    // sides, either the waiter sees the change or this thread sees the waiter.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_relaxed) != 0) {
      // Passing through the lock makes sure that a counted waiter is not between its
      // check and its sleep, where it would miss the notification.
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
  /// Number of checks before sleeping. They take a few microseconds, less than a sleep.
  static constexpr int looks = 200;

  std::atomic<unsigned> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace weir::tessera
