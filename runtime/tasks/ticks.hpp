// SPDX-License-Identifier: Apache-2.0
/// @file
/// A cheap clock for kernel times, and the mean length of a worker's kernels, which
/// decides whether moving tasks to other processors is worth it.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "weir/base/clock.hpp"

namespace weir::runtime {

/// Reads the constant-rate counter of the processor, or the monotonic clock where there
/// is no such counter. The unit is fixed but unknown until two readings are compared with
/// the monotonic clock.
/// @threads{const after construction}
class tick_clock {
 public:
  tick_clock() noexcept
      : constant_(has_constant_counter()), start_ns_(now_ns()), start_(now()) {}

  [[nodiscard]] std::int64_t now() const noexcept {
#if defined(__x86_64__)
    if (constant_) {
      // The header <x86intrin.h> names this `__rdtsc` and takes half a second to compile.
      return static_cast<std::int64_t>(__builtin_ia32_rdtsc());
    }
#endif
    return now_ns();
  }
  /// Converts ticks to nanoseconds by the rate since construction. Waits until that was
  /// 0.1 ms ago.
  [[nodiscard]] std::int64_t to_ns(std::int64_t ticks) const noexcept {
    return static_cast<std::int64_t>(static_cast<double>(ticks) * ns_per_tick());
  }
  /// Converts nanoseconds to ticks in the same way.
  [[nodiscard]] std::int64_t to_ticks(std::int64_t ns) const noexcept {
    return static_cast<std::int64_t>(static_cast<double>(ns) / ns_per_tick());
  }

 private:
  [[nodiscard]] double ns_per_tick() const noexcept {
    if (!constant_) {
      return 1;
    }
    std::int64_t passed_ns = now_ns() - start_ns_;
    while (passed_ns < 100'000) {
      passed_ns = now_ns() - start_ns_;
    }
    return static_cast<double>(passed_ns) / static_cast<double>(now() - start_);
  }
  static bool has_constant_counter() noexcept {
#if defined(__x86_64__)
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1U << 8)) != 0;
#else
    return false;
#endif
  }

  bool constant_;
  std::int64_t start_ns_;
  std::int64_t start_;
};

/// Cost of getting a task and its operands from another processor, in nanoseconds.
inline constexpr std::int64_t move_ns = 150;
/// Kernels shorter than this are done sooner if one worker runs all of them, in
/// nanoseconds.
inline constexpr std::int64_t worth_moving_ns = 100;

/// The mean length of the kernels of one worker, from samples. Kernels are called tiny
/// while the mean is below `worth_moving_ns`.
/// @threads{its worker}
class kernel_lengths {
 public:
  /// Learns the unit of the clock. Until this is called, kernels count as long.
  void calibrate(const tick_clock& clock) noexcept {
    if (worth_moving_ == 0) {
      worth_moving_ = clock.to_ticks(worth_moving_ns);
      measure_again();
    }
  }
  /// Returns true for one kernel in 64: its length is to be measured and added.
  [[nodiscard]] bool sample() noexcept {
    if (until_sample_ != 0) {
      --until_sample_;
      return false;
    }
    until_sample_ = samples_left_ == 0 ? kernels_per_sample - 1 : 0;
    samples_left_ -= static_cast<int>(samples_left_ != 0);
    return true;
  }
  void add(std::int64_t ticks) noexcept {
    mean_ += (ticks - mean_) / 4;
    tiny_ = mean_ < worth_moving_;
  }
  /// Makes kernels count as long until the next eight have been measured, because they
  /// may have become longer.
  void measure_again() noexcept {
    mean_ = 4 * worth_moving_;
    tiny_ = false;
    samples_left_ = samples_in_a_row;
    until_sample_ = 0;
  }
  [[nodiscard]] bool tiny() const noexcept { return tiny_; }

 private:
  static constexpr int kernels_per_sample = 64;
  static constexpr int samples_in_a_row = 8;

  int until_sample_ = 0;
  int samples_left_ = 0;  ///< samples in a row that are still to come
  bool tiny_ = false;
  std::int64_t mean_ = 0;  ///< in ticks
  std::int64_t worth_moving_ = 0;
};

}  // namespace weir::runtime
