// SPDX-License-Identifier: Apache-2.0
/// @file
/// Classes of durations.
///
/// Quantiles of durations are counted in classes whose width is an eighth of a power of
/// two, so a quantile is wrong by an eighth at most and adding costs a few instructions.
/// Example: 20 ns lie in the class from 20 to 21 ns, 200 ns in the class from 192 to 207
/// ns.
#include "stages/prose/durations.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace weir::actors {
namespace {

constexpr int class_bits = 3;  ///< a power of two has 2^3 classes

/// Returns the class of a duration: durations below 8 ns have one each.
/// The class has the position of the highest bit and the three bits behind it.
std::size_t class_of(std::uint64_t ns) noexcept {
  if (ns < (1U << class_bits)) {
    return ns;
  }
  const int shift = static_cast<int>(std::bit_width(ns)) - 1 - class_bits;
  return (static_cast<std::size_t>(shift) << class_bits) + (ns >> shift);
}

/// Returns the end of a class, in nanoseconds.
/// The inverse of `class_of`.
double end_of(std::size_t number) noexcept {
  if (number < (1U << class_bits)) {
    return static_cast<double>(number);
  }
  const std::size_t shift = (number >> class_bits) - 1;
  const std::size_t first = (number & ((1U << class_bits) - 1)) + (1U << class_bits);
  return std::ldexp(static_cast<double>(first + 1), static_cast<int>(shift));
}

}  // namespace

/// A negative duration counts as 0, which only a clock that was set back could give.
void duration_counts::add(std::int64_t ns) noexcept {
  counts_[class_of(static_cast<std::uint64_t>(std::max<std::int64_t>(0, ns)))] += 1;
  total_ += 1;
}

/// Returns the end of the class that has the value of the given rank, in seconds.
double duration_counts::quantile(double share) const noexcept {
  const auto wanted =
      static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(total_)));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (counts_[i] != 0 && seen >= wanted) {
      return end_of(i) * 1e-9;
    }
  }
  return 0;
}

}  // namespace weir::actors
