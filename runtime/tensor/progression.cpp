// SPDX-License-Identifier: Apache-2.0
/// @file
/// Euclid-style searches: where multiples of one number first land in a window of
/// another.
#include "tensor/progression.hpp"

#include <algorithm>

namespace weir::runtime {

std::int64_t first_landing(std::int64_t step, std::int64_t modulus, std::int64_t low,
                           std::int64_t high) noexcept {
  if (low == 0) {
    return 0;
  }
  if (step == 0) {
    return -1;
  }
  const std::int64_t past = low % step;
  if (past == 0 || step - past <= high - low) {
    return ceil_div(low, step);
  }
  // No multiple of step lies in [low, high], so x needs wraps: step*x - modulus*y in
  // [low, high]. Modulo step this asks for modulus*y in [-high, -low], an interval that
  // does not wrap.
  const std::int64_t inner_low = (step - high % step) % step;
  const std::int64_t inner_high = (step - low % step) % step;
  const std::int64_t y = first_landing(modulus % step, step, inner_low, inner_high);
  if (y < 0) {
    return -1;
  }
  std::int64_t wrapped = 0;
  if (!__builtin_mul_overflow(modulus, y, &wrapped) &&
      !__builtin_add_overflow(wrapped, low, &wrapped)) {
    return ceil_div(wrapped, step);
  }
  __extension__ using wide = __int128;
  const wide exact = static_cast<wide>(modulus) * y + low;
  return static_cast<std::int64_t>((exact + step - 1) / step);
}

bool difference_lands(std::int64_t s, std::int64_t n, std::int64_t t, std::int64_t m,
                      std::int64_t low, std::int64_t high) noexcept {
  // Only those p for which [p*s - high, p*s - low] meets [0, (m-1)*t] can do. For them
  // the bound on q holds by itself: a multiple of t outside that range implies one of its
  // ends inside the interval.
  const std::int64_t first = std::max<std::int64_t>(0, ceil_div(low, s));
  const std::int64_t last = std::min(n - 1, floor_div(high + (m - 1) * t, s));
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
  const std::int64_t step = s % t;
  if (step == 0) {
    return false;
  }
  const std::int64_t x = first_landing(step, t, t - offset, t - offset + width);
  return x >= 0 && x <= last - first;
}

}  // namespace weir::runtime
