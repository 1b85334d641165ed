// SPDX-License-Identifier: Apache-2.0
/// @file
/// The monotonic clock, for deadlines, traces and rates. No result may depend on it.
/// @threads{all functions: safe to call concurrently}
#pragma once

#include <chrono>
#include <cstdint>

namespace weir {

/// Returns the time of the monotonic clock, which begins at an unspecified moment.
/// @units{return value, nanoseconds}
[[nodiscard]] inline std::int64_t now_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
/// Returns how long ago `start_ns` was, a time of `now_ns`.
/// @units{start_ns, nanoseconds; return value, seconds}
[[nodiscard]] inline double seconds_since(std::int64_t start_ns) noexcept {
  return static_cast<double>(now_ns() - start_ns) * 1e-9;
}

}  // namespace weir
