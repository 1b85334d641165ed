// SPDX-License-Identifier: Apache-2.0
/// @file
/// fp8, fp16 and bf16 as bits, and their conversion from and to fp32. The conversions
/// have no branches, so that loops over them become vector code. They do not depend on
/// how the processor treats subnormals.
#pragma once

#include <cstdint>

#include "weir/base/small_floats.hpp"

/// Loops are compiled once for each instruction set. Functions that they call must be
/// inlined into them, or they would be compiled for the common instruction set.
#define WEIR_INLINE __attribute__((always_inline)) inline

namespace weir::collective {

/// The narrow types, as their bits. They are types of their own, so that overloads and
/// templates can tell them apart.
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

/// Convert between a float and its bits.
WEIR_INLINE std::uint32_t bits_of(float x) noexcept {
  return __builtin_bit_cast(std::uint32_t, x);
}
WEIR_INLINE float float_of(std::uint32_t bits) noexcept {
  return __builtin_bit_cast(float, bits);
}
/// Bits of fp32: sizes above that of infinity are NaN.
inline constexpr std::uint32_t float_infinity = 0x7F800000;
inline constexpr std::uint32_t float_quiet_nan = 0x7FC00000;

/// Returns c ? a : b without a branch. With a branch, the compiler would not compute the
/// other side in advance if an operation in it could trap, and the loop would not become
/// vector code.
WEIR_INLINE std::uint32_t choose(bool c, std::uint32_t a, std::uint32_t b) noexcept {
  const std::uint32_t mask = 0U - static_cast<std::uint32_t>(c);
  return (a & mask) | (b & ~mask);
}

namespace detail {

/// Returns the bits of 2^exponent as fp32, for exponents of normal numbers.
constexpr std::uint32_t power_bits(int exponent) noexcept {
  return static_cast<std::uint32_t>(127 + exponent) << 23;
}

/// Rounds a number without its sign to nearest even, and returns the code of the narrow
/// type. Exponents that are too large give codes beyond those of the type, which the
/// caller replaces.
template <int Fraction, int Bias>
WEIR_INLINE std::uint32_t narrow_finite(std::uint32_t size) noexcept {
  constexpr int drop = 23 - Fraction;
  const std::uint32_t half = (1U << (drop - 1)) - 1 + ((size >> drop) & 1U);
  const std::uint32_t normal =
      ((size + half) >> drop) - (static_cast<std::uint32_t>(127 - Bias) << Fraction);
  // The last bit of the sum has the value of the narrow type's smallest subnormal, so the
  // addition itself rounds to these.
  constexpr std::uint32_t magic = power_bits(1 - Bias - Fraction + 23);
  const std::uint32_t subnormal = bits_of(float_of(size) + float_of(magic)) - magic;
  return choose(size < power_bits(1 - Bias), subnormal, normal);
}

}  // namespace detail

/// Overloads by the type of the element, for loops that are templates.
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

/// Rounds to nearest even. A NaN becomes the canonical one, and sizes above the largest
/// become 448.
WEIR_INLINE void from_float(float x, e4m3_bits& out) noexcept {
  const std::uint32_t size = bits_of(x) & 0x7FFFFFFFU;
  const std::uint32_t sign = (bits_of(x) >> 24) & 0x80U;
  // Values from 2^9 on are too large in any case; below, the sum in narrow_finite is
  // valid.
  const std::uint32_t near =
      choose(size < detail::power_bits(9), size, detail::power_bits(9));
  const std::uint32_t code = detail::narrow_finite<3, 7>(near);
  const std::uint32_t finite = choose(code > 0x7E, 0x7EU, code) | sign;
  out.bits = static_cast<std::uint8_t>(choose(size > float_infinity, 0x7FU, finite));
}
/// Rounds to nearest even. A NaN becomes the canonical one, finite numbers that are too
/// large become 57344, and an infinity stays infinite.
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
/// Rounds to nearest even. A NaN becomes the canonical one, and sizes that are too large
/// become infinite.
WEIR_INLINE void from_float(float x, half_bits& out) noexcept {
  const std::uint32_t size = bits_of(x) & 0x7FFFFFFFU;
  const std::uint32_t sign = (bits_of(x) >> 16) & 0x8000U;
  const std::uint32_t near =
      choose(size < detail::power_bits(16), size, detail::power_bits(16));
  const std::uint32_t value = detail::narrow_finite<10, 15>(near) | sign;
  out.bits = static_cast<std::uint16_t>(choose(size > float_infinity, 0x7E00U, value));
}
/// Rounds to nearest even. A NaN becomes the canonical one.
WEIR_INLINE void from_float(float x, bfloat_bits& out) noexcept {
  const std::uint32_t bits = bits_of(x);
  const std::uint32_t value = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  out.bits = static_cast<std::uint16_t>(
      choose((bits & 0x7FFFFFFFU) > float_infinity, 0x7FC0U, value));
}

/// Rounds a double to fp32, to odd: if it is not exact, the last bit is 1. A further
/// rounding to at most 22 bits of fraction then gives the same as a single rounding.
WEIR_INLINE float to_odd_float(double x) noexcept {
  const auto nearest = static_cast<float>(x);
  const std::uint32_t bits = bits_of(nearest);
  const auto back = static_cast<double>(nearest);
  const auto of_x = __builtin_bit_cast(std::uint64_t, x);
  const auto of_back = __builtin_bit_cast(std::uint64_t, back);
  // Sizes compare as their bits do, because both numbers have the same sign. A NaN is not
  // changed.
  const bool adjust = of_back != of_x && (bits & 1U) == 0;
  const std::uint32_t step = choose(of_back > of_x, ~0U, 1U);
  const bool number = (of_x << 1) <= 0xFFE0000000000000;
  return float_of(bits + choose(adjust && number, step, 0U));
}

/// Converts a double that will become fp16 or fp8, which have no values below 2^-126. The
/// fraction is cut to 23 bits, and the last of them is set if anything was cut off.
WEIR_INLINE float to_cut_float(double x) noexcept {
  constexpr std::uint64_t last = std::uint64_t{1} << 29;
  const auto bits = __builtin_bit_cast(std::uint64_t, x);
  const std::uint64_t any = ((bits & (last - 1)) + (last - 1)) & last;
  const std::uint64_t cut = (bits & ~(last - 1)) | any;
  return static_cast<float>(__builtin_bit_cast(double, cut));
}

}  // namespace weir::collective
