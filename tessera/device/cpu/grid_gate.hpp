// SPDX-License-Identifier: Apache-2.0
/// @file
/// Barrier of all blocks of a persistent kernel. Each block has its own thread.
///
/// Blocks that wait here really sleep, unlike the threads of one block, because another
/// block may need the processor.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace weir::tessera {

/// A barrier. A block that has ended counts as arrived at every later round.
/// @threads{safe from any thread}
class grid_gate {
 public:
  grid_gate(std::int64_t blocks, const std::atomic<bool>& stop)
      : blocks_(blocks), stop_(stop) {}

  /// Waits until all blocks have arrived or left. Returns the same value to all: other
  /// than 0 if the kernel had been asked to stop by then.
  int arrive() {
    std::unique_lock lock(mutex_);
    const std::uint64_t round = round_;
    ++arrived_;
    if (!open_if_complete()) {
      opened_.wait(lock, [&] { return round_ != round; });
    }
    return answer_;
  }
  /// Takes a block that has ended out of the count.
  void leave() {
    const std::lock_guard lock(mutex_);
    --blocks_;
    (void)open_if_complete();
  }

 private:
  /// Opens the barrier if all blocks that have not ended have arrived. The caller holds
  /// the lock.
  bool open_if_complete() {
    if (arrived_ < blocks_ || arrived_ == 0) {
      return false;
    }
    arrived_ = 0;
    ++round_;
    answer_ = stop_.load(std::memory_order_acquire) ? 1 : 0;
    opened_.notify_all();
    return true;
  }

  std::mutex mutex_;
  std::condition_variable opened_;
  std::int64_t blocks_;
  std::int64_t arrived_ = 0;
  std::uint64_t round_ = 0;
  /// Result of the last round. The next round cannot open before all blocks have read it.
  int answer_ = 0;
  const std::atomic<bool>& stop_;
};

}  // namespace weir::tessera
