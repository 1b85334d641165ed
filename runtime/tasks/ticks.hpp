// SPDX-License-Identifier: Apache-2.0
/// @file
/// A cheap clock for kernel times: the processor's constant-rate counter where there is
/// one.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

#include "weir/base/clock.hpp"

namespace weir::runtime {

/// Counts in a unit that is fixed but unknown until two readings are compared with the
/// monotonic clock.
/// @threads{const after construction}
class tick_clock {
 public:
  tick_clock() noexcept
      : constant_(has_constant_counter()), start_ns_(now_ns()), start_(now()) {}

  [[nodiscard]] std::int64_t now() const noexcept {
#if defined(__x86_64__)
    if (constant_) {
      return static_cast<std::int64_t>(__rdtsc());
    }
#endif
    return now_ns();
  }
  /// Nanoseconds that `ticks` are, by the rate since construction (at least 0.1 ms of
  /// it).
  [[nodiscard]] std::int64_t to_ns(std::int64_t ticks) const noexcept {
    return static_cast<std::int64_t>(static_cast<double>(ticks) * ns_per_tick());
  }
  /// Likewise.
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

}  // namespace weir::runtime
