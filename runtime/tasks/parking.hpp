// SPDX-License-Identifier: Apache-2.0
/// @file
/// A place where one thread sleeps until another one wakes it.
#pragma once

#include <atomic>
#include <cstdint>

namespace weir::runtime {

/// The owner calls `announce`, looks once more for a reason to stay awake, and then calls
/// `sleep` or `retract`. A `wake` that comes after `announce` is never lost: it clears
/// the flag that `sleep` waits for.
/// @threads{announce, retract, sleep: the owner; wake, parked: any thread}
class parking_place {
 public:
  void announce() noexcept { parked_.store(1, std::memory_order_seq_cst); }
  void retract() noexcept { parked_.store(0, std::memory_order_relaxed); }
  /// Sleeps until `wake`, or for `timeout_ns`; a negative time means for ever. With
  /// `moves`, a thread that wakes on the processor of the thread that woke it moves to
  /// another processor.
  void sleep(std::int64_t timeout_ns, bool moves) noexcept;
  /// Wakes the owner. Returns true if it was parked.
  bool wake() noexcept;
  [[nodiscard]] bool parked() const noexcept {
    return parked_.load(std::memory_order_relaxed) != 0;
  }

 private:
  std::atomic<std::uint32_t> parked_{0};
  std::atomic<int> woken_from_{-1};  ///< processor of the thread that woke it
};

/// A hint to the processor that this thread spins.
inline void spin_pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace weir::runtime
