// SPDX-License-Identifier: Apache-2.0
/// @file
/// The long accumulator of exact sums. The accumulator is a fixed-point number that
/// covers the range of a double. Each digit has 32 bits in a signed 64-bit integer, so
/// many additions of 32-bit parts fit before a carry is needed. Carries are done once, at
/// the end.
#include "collective/exact_number.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "collective/kernels/elements.hpp"

namespace weir::collective {
namespace {

__extension__ using wide_bits = unsigned __int128;

/// The 52 bits of a double's fraction, and the bits of a digit.
constexpr std::uint64_t fraction_mask = (std::uint64_t{1} << 52) - 1;
constexpr std::uint64_t digit_mask = 0xFFFFFFFF;

}  // namespace

// Special values are only noted. A double contributes its 53-bit significand at the
// position of its exponent.
void exact_number::add(double x) noexcept {
  const auto bits = __builtin_bit_cast(std::uint64_t, x);
  const bool negative = (bits >> 63) != 0;
  const auto exponent = static_cast<int>((bits >> 52) & 0x7FF);
  std::uint64_t significand = bits & fraction_mask;
  if (exponent == 0x7FF) {
    nan_ = nan_ || significand != 0;
    positive_infinity_ = positive_infinity_ || !negative;
    negative_infinity_ = negative_infinity_ || negative;
    return;
  }
  // The sum of nothing but -0 is -0.
  only_negative_zero_ = only_negative_zero_ && bits == std::uint64_t{1} << 63;
  significand |= exponent > 0 ? fraction_mask + 1 : 0;
  // The biased exponent is the position of the last bit, counted from `lowest`;
  // subnormals have the position of exponent 1.
  add_at(significand, std::max(exponent, 1) - 1, negative);
}

void exact_number::add_scaled(std::int64_t value, int exponent) noexcept {
  only_negative_zero_ = false;
  const auto bits = static_cast<std::uint64_t>(value);
  add_at(value < 0 ? 0 - bits : bits, exponent - lowest, value < 0);
}

// Adds a 64-bit number at a bit position. It touches at most three digits.
void exact_number::add_at(std::uint64_t size, int position, bool negative) noexcept {
  if (size == 0) {
    return;
  }
  const int digit = position / digit_bits;
  wide_bits rest = static_cast<wide_bits>(size) << (position % digit_bits);
  first_ = std::min(first_, digit);
  last_ = std::max(last_, digit + 2);
  for (auto d = static_cast<std::size_t>(digit); rest != 0; ++d, rest >>= digit_bits) {
    const auto part = static_cast<std::int64_t>(rest & digit_mask);
    digits_[d] += negative ? -part : part;
  }
}

/// Brings all digits but the last into [0, 2^32). The last one takes the carry and the
/// sign.
void exact_number::carry() noexcept {
  std::int64_t carried = 0;
  for (int d = first_; d < last_; ++d) {
    std::int64_t& digit = digits_[static_cast<std::size_t>(d)];
    digit += carried;
    carried = digit >> digit_bits;
    digit &= static_cast<std::int64_t>(digit_mask);
  }
  digits_[static_cast<std::size_t>(last_)] += carried;
}

/// Brings the digits into the form of the sum's absolute value. Returns true if the sum
/// is negative.
bool exact_number::settle() noexcept {
  last_ = std::min(last_ + 1, static_cast<int>(digits_.size()) - 1);
  carry();
  const bool negative = digits_[static_cast<std::size_t>(last_)] < 0;
  if (negative) {
    for (int d = first_; d <= last_; ++d) {
      digits_[static_cast<std::size_t>(d)] *= -1;
    }
    carry();
  }
  return negative;
}

// Infinities of both signs and NaN give NaN. A sum that cancels to zero is +0.
double exact_number::rounded(int precision, int least) noexcept {
  if (nan_ || (positive_infinity_ && negative_infinity_)) {
    return canonical(std::numeric_limits<double>::quiet_NaN());
  }
  if (positive_infinity_ || negative_infinity_) {
    const double infinity = std::numeric_limits<double>::infinity();
    return positive_infinity_ ? infinity : -infinity;
  }
  if (last_ < 0) {
    return only_negative_zero_ ? -0.0 : 0.0;
  }
  const bool negative = settle();
  int top = last_;
  while (top >= first_ && digits_[static_cast<std::size_t>(top)] == 0) {
    --top;
  }
  if (top < first_) {
    return 0.0;
  }
  const double size = size_rounded(top, precision, least);
  return negative ? -size : size;
}

// Rounds the absolute value to nearest even. `top` is its highest digit that is not 0.
// The last bit of the result is `precision` bits below the first, but not below `least`,
// where subnormals end.
double exact_number::size_rounded(int top, int precision, int least) const noexcept {
  // Three digits have at least 65 bits, more than any precision here. Lower digits only
  // decide whether a tie is one (`sticky`).
  wide_bits head = 0;
  for (int d = top; d > top - 3; --d) {
    const auto digit = d < first_ ? 0 : digits_[static_cast<std::size_t>(d)];
    head = (head << digit_bits) | static_cast<std::uint64_t>(digit);
  }
  bool sticky = false;
  for (int d = top - 3; d >= first_; --d) {
    sticky = sticky || digits_[static_cast<std::size_t>(d)] != 0;
  }
  const int head_exponent = lowest + (top - 2) * digit_bits;
  int head_bits = 0;
  while ((head >> head_bits) != 0) {
    ++head_bits;
  }
  // `unit` is the exponent of the result's last bit; `drop` bits of the head are below
  // it.
  const int unit = std::max(head_exponent + head_bits - precision, least);
  const int drop = std::min(unit - head_exponent, 127);
  if (drop <= 0) {  // all bits of the head fit
    return std::ldexp(static_cast<double>(head), head_exponent);
  }
  const wide_bits half = static_cast<wide_bits>(1) << (drop - 1);
  const wide_bits lower = head & (half * 2 - 1);
  auto rounded = static_cast<std::uint64_t>(head >> drop);
  const bool above = lower > half || (lower == half && (sticky || (rounded & 1U) != 0));
  rounded += above ? 1 : 0;
  return std::ldexp(static_cast<double>(rounded), unit);
}

}  // namespace weir::collective
