// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sums of doubles without rounding, for elements whose sum needs more than two doubles.
///
/// It is slow and used rarely; its other uses are the few elements behind the last whole
/// block, and the last step of fixed-point sums.
#pragma once

#include <array>
#include <cstdint>

namespace weir::collective {

/// An exact sum of up to 2^20 doubles: a fixed-point number over the whole range of their
/// exponents, in digits of 32 bits. Only digits in use are touched.
/// @threads{thread-compatible}
class exact_number {
 public:
  /// Adds a double, which may be infinite or a NaN.
  void add(double x) noexcept;
  /// Adds value * 2^exponent, for exponents from -1074 to 1000.
  void add_scaled(std::int64_t value, int exponent) noexcept;

  /// Returns the sum, rounded once to nearest even. May be called once.
  /// @param precision  bits of the significand, at most 53
  /// @param least      exponent of the last bit of a subnormal, such as -149 for fp32
  /// A zero is +0, unless only -0 was added. Infinities and NaN follow IEEE 754; a NaN is
  /// in canonical form.
  [[nodiscard]] double rounded(int precision, int least) noexcept;

 private:
  static constexpr int lowest = -1074;  ///< exponent of bit 0 of digit 0
  static constexpr int digit_bits = 32;

  /// Adds or subtracts `size` * 2^position, in units of the lowest bit.
  void add_at(std::uint64_t size, int position, bool negative) noexcept;
  /// Carries between digits, so that all but the last are in [0, 2^32).
  void carry() noexcept;
  /// Makes the digits those of the absolute value. Returns true if the sum is negative.
  bool settle() noexcept;
  /// Rounds the absolute value. `top` is its highest digit that is not 0.
  [[nodiscard]] double size_rounded(int top, int precision, int least) const noexcept;

  // The range of doubles has 2098 bits; 2^20 summands need 20 more.
  std::array<std::int64_t, 68> digits_{};
  int first_ = 68;  ///< digits that may not be zero: [first_, last_]
  int last_ = -1;
  bool positive_infinity_ = false;
  bool negative_infinity_ = false;
  bool nan_ = false;
  bool only_negative_zero_ = true;
};

}  // namespace weir::collective
