// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sums of doubles without rounding, for the elements that need more than two doubles.
#pragma once

#include <array>
#include <cstdint>

namespace weir::collective {

/// A sum of up to 2^20 doubles, exact: a fixed point number over the whole range of their
/// exponents, in digits of 32 bits of which only those in use are touched.
/// @threads{thread-compatible}
class exact_number {
 public:
  void add(double x) noexcept;
  /// Adds value * 2^exponent, for exponents from -1074 to 1000.
  void add_scaled(std::int64_t value, int exponent) noexcept;

  /// The sum, rounded once to nearest even.
  /// @param precision  bits of the significand, at most 53
  /// @param least      exponent of the last bit of a subnormal, e.g. -149 for fp32
  /// Zero is +0, except that -0 is the sum of nothing but -0. Infinities and NaN as in
  /// IEEE 754, a NaN in its canonical form.
  [[nodiscard]] double rounded(int precision, int least) noexcept;

 private:
  static constexpr int lowest = -1074;  ///< exponent of bit 0 of digit 0
  static constexpr int digit_bits = 32;

  void add_at(std::uint64_t size, int position, bool negative) noexcept;
  void carry() noexcept;
  bool settle() noexcept;
  [[nodiscard]] double size_rounded(int top, int precision, int least) const noexcept;

  // 2098 bits of doubles, and 20 for how many there are.
  std::array<std::int64_t, 68> digits_{};
  int first_ = 68;  ///< digits that may not be zero: [first_, last_]
  int last_ = -1;
  bool positive_infinity_ = false;
  bool negative_infinity_ = false;
  bool nan_ = false;
  bool only_negative_zero_ = true;
};

}  // namespace weir::collective
