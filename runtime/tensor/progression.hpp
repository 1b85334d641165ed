// SPDX-License-Identifier: Apache-2.0
/// @file
/// Functions on integer progressions on which the overlap decision rests.
#pragma once

#include <cstdint>

namespace weir::runtime {

/// Returns the quotient rounded towards minus infinity. @pre `b` > 0
[[nodiscard]] constexpr std::int64_t floor_div(std::int64_t a, std::int64_t b) noexcept {
  const std::int64_t q = a / b;
  return q - static_cast<std::int64_t>(a % b < 0);
}
/// Returns the quotient rounded towards plus infinity. @pre `b` > 0
[[nodiscard]] constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) noexcept {
  const std::int64_t q = a / b;
  return q + static_cast<std::int64_t>(a % b > 0);
}

/// Returns the smallest x >= 0 with `low <= (step * x) mod modulus <= high`, or -1 if
/// there is none up to `max`. Takes O(log modulus) steps. @pre 0 <= step < modulus, 0 <=
/// low <= high < modulus, max >= 0
[[nodiscard]] std::int64_t first_landing(std::int64_t step, std::int64_t modulus,
                                         std::int64_t low, std::int64_t high,
                                         std::int64_t max = INT64_MAX) noexcept;

/// Returns true if some 0 <= p < n and 0 <= q < m give `low <= p*s - q*t <= high`, in
/// O(log t) steps.
/// @pre s, t, n, m > 0; all four extreme values of p*s - q*t fit into 63 bits
[[nodiscard]] bool difference_lands(std::int64_t s, std::int64_t n, std::int64_t t,
                                    std::int64_t m, std::int64_t low,
                                    std::int64_t high) noexcept;

}  // namespace weir::runtime
