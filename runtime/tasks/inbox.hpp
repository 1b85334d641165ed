// SPDX-License-Identifier: Apache-2.0
/// @file
/// What one worker hands to another.
#pragma once

#include <atomic>

#include "tasks/task.hpp"

namespace weir::runtime {

/// Where a worker that looks for a task is handed one. Fewer cache lines travel than
/// through a queue.
/// @threads{open, full, close: the owner; offer: any thread}
class inbox {
 public:
  void open() noexcept { task_.store(nobody(), std::memory_order_relaxed); }
  [[nodiscard]] bool full() const noexcept {
    return task_.load(std::memory_order_relaxed) != nobody();
  }
  /// What was handed over, or null.
  [[nodiscard]] task* close() noexcept {
    task* const t = task_.exchange(nullptr, std::memory_order_acquire);
    return t == nobody() ? nullptr : t;
  }
  /// False unless it is open.
  [[nodiscard]] bool offer(task& t) noexcept {
    task* expected = nobody();
    return task_.load(std::memory_order_relaxed) == expected &&
           task_.compare_exchange_strong(expected, &t, std::memory_order_release,
                                         std::memory_order_relaxed);
  }

 private:
  /// Open and empty; closed is null.
  [[nodiscard]] static task* nobody() noexcept {
    static task none;
    return &none;
  }
  std::atomic<task*> task_{nullptr};
};

}  // namespace weir::runtime
