// SPDX-License-Identifier: Apache-2.0
/// @file
/// The long accumulator behind exact sums.
#include "collective/exact_number.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "collective/kernels/elements.hpp"

namespace weir::collective {
namespace {

__extension__ using wide_bits = unsigned __int128;

constexpr std::uint64_t fraction_mask = (std::uint64_t{1} << 52) - 1;
constexpr std::uint64_t digit_mask = 0xFFFFFFFF;

}  // namespace

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
  only_negative_zero_ = only_negative_zero_ && bits == std::uint64_t{1} << 63;
  significand |= exponent > 0 ? fraction_mask + 1 : 0;
  // The exponent is that of the last bit, counted from `lowest`.
  add_at(significand, std::max(exponent, 1) - 1, negative);
}

void exact_number::add_scaled(std::int64_t value, int exponent) noexcept {
  only_negative_zero_ = false;
  const auto bits = static_cast<std::uint64_t>(value);
  add_at(value < 0 ? 0 - bits : bits, exponent - lowest, value < 0);
}

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

/// Brings digits into [0, 2^32) but for the last, which takes the sign.
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

/// Makes all digits what they are of the sum's size; true if the sum is below zero.
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

double exact_number::size_rounded(int top, int precision, int least) const noexcept {
  // The top three digits hold at least 65 bits; what is below them only breaks ties.
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
  const int unit = std::max(head_exponent + head_bits - precision, least);
  const int drop = std::min(unit - head_exponent, 127);
  if (drop <= 0) {  // every bit there is fits
    return std::ldexp(static_cast<double>(head), head_exponent);
  }
  const wide_bits half = static_cast<wide_bits>(1) << (drop - 1);
  const wide_bits lower = head & (half * 2 - 1);
  auto kept = static_cast<std::uint64_t>(head >> drop);
  const bool above = lower > half || (lower == half && (sticky || (kept & 1U) != 0));
  kept += above ? 1 : 0;
  return std::ldexp(static_cast<double>(kept), unit);
}

}  // namespace weir::collective
