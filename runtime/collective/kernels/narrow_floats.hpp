// SPDX-License-Identifier: Apache-2.0
/// @file
/// fp8, fp16 and bf16 as bits, to and from fp32: without branches, so that loops over
/// them become vector code, and with no trust in how the processor treats subnormals.
#pragma once

#include <cstdint>

#include "weir/base/small_floats.hpp"

/// Loops are compiled once per instruction set: what they call has to be part of them.
#define WEIR_INLINE __attribute__((always_inline)) inline

namespace weir::collective {

struct e4m3_bits {
  std::uint8_t bits;
};
struct e5m2_bits {
  std::uint8_t bits;
};
struct half_bits {
  std::uint16_t bits;
};
struct bfloat_bits {
  std::uint16_t bits;
};

WEIR_INLINE std::uint32_t bits_of(float x) noexcept {
  return __builtin_bit_cast(std::uint32_t, x);
}
WEIR_INLINE float float_of(std::uint32_t bits) noexcept {
  return __builtin_bit_cast(float, bits);
}
inline constexpr std::uint32_t float_infinity = 0x7F800000;
inline constexpr std::uint32_t float_quiet_nan = 0x7FC00000;

/// c ? a : b without a branch: a compiler that sees one will not compute the other side
/// in vain where it contains an operation that could trap, and so makes no vector code.
WEIR_INLINE std::uint32_t choose(bool c, std::uint32_t a, std::uint32_t b) noexcept {
  const std::uint32_t mask = 0U - static_cast<std::uint32_t>(c);
  return (a & mask) | (b & ~mask);
}

namespace detail {

/// 2^exponent as fp32 bits, for exponents of normal numbers.
constexpr std::uint32_t power_bits(int exponent) noexcept {
  return static_cast<std::uint32_t>(127 + exponent) << 23;
}

/// Rounds to nearest even; `size` is the value without its sign. Exponents above the
/// narrow type's run on into codes that it has not.
template <int Fraction, int Bias>
WEIR_INLINE std::uint32_t narrow_finite(std::uint32_t size) noexcept {
  constexpr int drop = 23 - Fraction;
  const std::uint32_t half = (1U << (drop - 1)) - 1 + ((size >> drop) & 1U);
  const std::uint32_t normal =
      ((size + half) >> drop) - (static_cast<std::uint32_t>(127 - Bias) << Fraction);
  // The sum's last bit is worth as much as the narrow type's subnormals, so the adder
  // rounds.
  constexpr std::uint32_t magic = power_bits(1 - Bias - Fraction + 23);
  const std::uint32_t subnormal = bits_of(float_of(size) + float_of(magic)) - magic;
  return choose(size < power_bits(1 - Bias), subnormal, normal);
}

}  // namespace detail

/// Overloads for loops that are templates of the element type.
WEIR_INLINE float to_float(e4m3_bits x) noexcept {
  return fp8_e4m3_to_float(x.bits);
}
WEIR_INLINE float to_float(e5m2_bits x) noexcept {
  return fp8_e5m2_to_float(x.bits);
}
WEIR_INLINE float to_float(half_bits x) noexcept {
  return fp16_to_float(x.bits);
}
WEIR_INLINE float to_float(bfloat_bits x) noexcept {
  return bf16_to_float(x.bits);
}

/// Rounds to nearest even; a NaN becomes the canonical one; too large becomes 448.
WEIR_INLINE void from_float(float x, e4m3_bits& out) noexcept {
  const std::uint32_t size = bits_of(x) & 0x7FFFFFFFU;
  const std::uint32_t sign = (bits_of(x) >> 24) & 0x80U;
  // Values from 2^9 on are all too large; below it the sum in narrow_finite is in range.
  const std::uint32_t near =
      choose(size < detail::power_bits(9), size, detail::power_bits(9));
  const std::uint32_t code = detail::narrow_finite<3, 7>(near);
  const std::uint32_t finite = choose(code > 0x7E, 0x7EU, code) | sign;
  out.bits = static_cast<std::uint8_t>(choose(size > float_infinity, 0x7FU, finite));
}
/// The same; too large and finite becomes 57344, an infinity stays one.
WEIR_INLINE void from_float(float x, e5m2_bits& out) noexcept {
  const std::uint32_t size = bits_of(x) & 0x7FFFFFFFU;
  const std::uint32_t sign = (bits_of(x) >> 24) & 0x80U;
  const std::uint32_t near =
      choose(size < detail::power_bits(16), size, detail::power_bits(16));
  const std::uint32_t code = detail::narrow_finite<2, 15>(near);
  const std::uint32_t finite = choose(code > 0x7B, 0x7BU, code);
  const std::uint32_t value = choose(size == float_infinity, 0x7CU, finite) | sign;
  out.bits = static_cast<std::uint8_t>(choose(size > float_infinity, 0x7EU, value));
}
/// Rounds to nearest even; a NaN becomes the canonical one; too large becomes infinite.
WEIR_INLINE void from_float(float x, half_bits& out) noexcept {
  const std::uint32_t size = bits_of(x) & 0x7FFFFFFFU;
  const std::uint32_t sign = (bits_of(x) >> 16) & 0x8000U;
  const std::uint32_t near =
      choose(size < detail::power_bits(16), size, detail::power_bits(16));
  const std::uint32_t value = detail::narrow_finite<10, 15>(near) | sign;
  out.bits = static_cast<std::uint16_t>(choose(size > float_infinity, 0x7E00U, value));
}
WEIR_INLINE void from_float(float x, bfloat_bits& out) noexcept {
  const std::uint32_t bits = bits_of(x);
  const std::uint32_t value = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  out.bits = static_cast<std::uint16_t>(
      choose((bits & 0x7FFFFFFFU) > float_infinity, 0x7FC0U, value));
}

/// A double as fp32, rounded to odd: one more rounding to at most 22 bits of fraction
/// then gives what a single rounding would have given.
WEIR_INLINE float to_odd_float(double x) noexcept {
  const auto nearest = static_cast<float>(x);
  const std::uint32_t bits = bits_of(nearest);
  const auto back = static_cast<double>(nearest);
  const auto of_x = __builtin_bit_cast(std::uint64_t, x);
  const auto of_back = __builtin_bit_cast(std::uint64_t, back);
  // Sizes compare like their bits; they have the same sign. A NaN is as it was.
  const bool adjust = of_back != of_x && (bits & 1U) == 0;
  const std::uint32_t step = choose(of_back > of_x, ~0U, 1U);
  const bool number = (of_x << 1) <= 0xFFE0000000000000;
  return float_of(bits + choose(adjust && number, step, 0U));
}

/// Converts a number that will become fp16 or fp8, which have no values below 2^-126. The
/// fraction is cut to 23 bits, and the last of them says whether anything was cut.
WEIR_INLINE float to_cut_float(double x) noexcept {
  constexpr std::uint64_t last = std::uint64_t{1} << 29;
  const auto bits = __builtin_bit_cast(std::uint64_t, x);
  const std::uint64_t any = ((bits & (last - 1)) + (last - 1)) & last;
  const std::uint64_t cut = (bits & ~(last - 1)) | any;
  return static_cast<float>(__builtin_bit_cast(double, cut));
}

}  // namespace weir::collective
