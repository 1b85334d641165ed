// SPDX-License-Identifier: Apache-2.0
/// @file
/// Counts of durations, for the median and the slowest ones of a run of any length.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace weir::actors {

/// Numbers of durations by their size. Each class is 1/8 of a power of two wide, so that
/// a quantile is at most 12.5 % too large.
/// @threads{thread-compatible}
class duration_counts {
 public:
  /// Counts a duration. @units{nanoseconds}
  void add(std::int64_t ns) noexcept;
  /// Returns the duration that a share of all durations did not exceed, as the upper end
  /// of its class; 0 if there are none. @param share  From 0 to 1. @units{seconds}
  [[nodiscard]] double quantile(double share) const noexcept;

 private:
  static constexpr std::size_t per_octave = 8;
  std::array<std::uint64_t, 64 * per_octave> counts_{};
  std::uint64_t total_ = 0;
};

}  // namespace weir::actors
