// SPDX-License-Identifier: Apache-2.0
/// @file
/// Monotonic time. No result may depend on it.
#pragma once

#include <chrono>
#include <cstdint>

namespace weir {

/// Nanoseconds of the monotonic clock.
[[nodiscard]] inline std::int64_t now_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
[[nodiscard]] inline double seconds_since(std::int64_t start_ns) noexcept {
  return static_cast<double>(now_ns() - start_ns) * 1e-9;
}

}  // namespace weir
