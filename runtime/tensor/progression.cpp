// SPDX-License-Identifier: Apache-2.0
/// @file
/// Searches in the manner of Euclid's algorithm: which multiples of one number are the
/// first to fall into a window modulo another.
#include "tensor/progression.hpp"

#include <utility>

namespace weir::runtime {

/// Reduces the question for (s, m) to the same question for (m mod s, s), as Euclid's
/// algorithm does with two numbers. It ends early when the answer can only be above
/// `max`.
std::int64_t first_landing(std::int64_t step, std::int64_t modulus, std::int64_t low,
                           std::int64_t high, std::int64_t max) noexcept {
  using number = std::uint64_t;  // sums below stay under twice the modulus
  number s = static_cast<number>(step);
  number m = static_cast<number>(modulus);
  number from = static_cast<number>(low);
  const number width = static_cast<number>(high) - from;
  const number limit = static_cast<number>(max);
  if (from == 0) {
    return 0;
  }
  // The answer is a * x + b * y + c, where x is the unknown for the current numbers and y
  // the number of times that s * x wraps around.
  number a = 1;
  number b = 0;
  number c = 0;
  while (s != 0) {
    const number whole = from / s;
    const number past = from - whole * s;
    if (past == 0 || s - past <= width) {
      const number x = a * (whole + static_cast<number>(past != 0)) + c;
      return x <= limit ? static_cast<std::int64_t>(x) : -1;
    }
    // No multiple of s lies in the window, so x needs wraps: s * x - m * y must be in
    // [from, from + width]. Modulo s this is the same question for y, whose window does
    // not wrap and does not begin at 0. With z wraps of y, x = turns * y + z + whole + 1.
    const number turns = m / s;
    c += a * (whole + 1);
    b = std::exchange(a, a * turns + b);
    if (a + c > limit) {
      return -1;
    }
    from = s - past - width;
    m = std::exchange(s, m - turns * s);
  }
  return -1;
}

/// Cuts the range of p first. Then the interval modulo t is either as wide as t, or
/// already hit by the first p, or the question is one of `first_landing`.
bool difference_lands(std::int64_t s, std::int64_t n, std::int64_t t, std::int64_t m,
                      std::int64_t low, std::int64_t high) noexcept {
  // Only those p can succeed for which [p*s - high, p*s - low] meets [0, (m-1)*t]. For
  // them the bound on q holds by itself: a multiple of t outside of that range implies
  // that one end of the range is inside the interval.
  const std::int64_t end = high + (m - 1) * t;
  const std::int64_t first = low <= 0 ? 0 : ceil_div(low, s);
  const std::int64_t last = end >= (n - 1) * s ? n - 1 : floor_div(end, s);
  if (first > last) {
    return false;
  }
  const std::int64_t width = high - low;
  if (width >= t - 1) {
    return true;
  }
  const std::int64_t offset = (first * s - low) % t;
  if (offset <= width) {
    return true;
  }
  const std::int64_t step = s < t ? s : s % t;
  return first_landing(step, t, t - offset, t - offset + width, last - first) >= 0;
}

}  // namespace weir::runtime
