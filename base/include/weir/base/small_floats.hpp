// SPDX-License-Identifier: Apache-2.0
/// @file
/// Converts the element types fp16, bf16 and fp8, which C++20 has no types for, to fp32
/// and back.
///
/// Every value of these types is a value of fp32, so decoding is exact. Encoding rounds
/// to the nearest value, and to the even code among two nearest ones. The functions
/// contain no branch, so that loops over them become vector code, and they are always
/// inlined, so that a loop which is compiled for another instruction set compiles them
/// for it too. They do not depend on the processor's mode for subnormal numbers. nvcc
/// compiles them for GPUs.
/// @threads{all functions: safe to call concurrently}
#pragma once

#include <cstdint>

#include "weir/base/math/device_inline.hpp"

namespace weir {

namespace small_floats_detail {

/// Bits of positive infinity in float32.
inline constexpr std::uint32_t infinity_bits = 0x7F800000;
/// Bits of the positive quiet NaN in float32.
inline constexpr std::uint32_t quiet_nan_bits = 0x7FC00000;

/// Returns `a` if `condition` holds and `b` otherwise. Masks are used instead of `?:`,
/// for which compilers may emit a branch that stops vectorisation.
WEIR_MATH std::uint32_t select(bool condition, std::uint32_t a,
                               std::uint32_t b) noexcept {
  const std::uint32_t mask = 0U - static_cast<std::uint32_t>(condition);
  return (a & mask) | (b & ~mask);
}

/// Bits of 2^exponent as fp32, for exponents of normal numbers.
WEIR_MATH constexpr std::uint32_t power_of_two(int exponent) noexcept {
  return static_cast<std::uint32_t>(127 + exponent) << 23;
}

/// Returns the fp32 bits of a finite number with `Fraction` fraction bits and the
/// exponent bias `Bias`. `code` is the number without its sign.
template <int Fraction, int Bias>
WEIR_MATH std::uint32_t widen(std::uint32_t code) noexcept {
  // A normal number keeps its fraction; its exponent moves to the bias of fp32.
  const std::uint32_t normal =
      (code << (23 - Fraction)) + (static_cast<std::uint32_t>(127 - Bias) << 23);
  // A subnormal number is a whole number times the smallest power of two. Both factors
  // are normal in fp32, so the product is exact and no subnormal operand occurs.
  const float smallest = __builtin_bit_cast(float, power_of_two(1 - Bias - Fraction));
  const auto subnormal = __builtin_bit_cast(
      std::uint32_t, static_cast<float>(static_cast<std::int32_t>(code)) * smallest);
  return select(code < (1U << Fraction), subnormal, normal);
}

/// Returns the code, without its sign, of the nearest number with `Fraction` fraction
/// bits and the exponent bias `Bias`. `size` holds the bits of a finite fp32 without its
/// sign. Numbers above the format's range give codes above those of the format.
template <int Fraction, int Bias>
WEIR_MATH std::uint32_t narrow(std::uint32_t size) noexcept {
  constexpr int dropped = 23 - Fraction;
  const std::uint32_t odd = size >> dropped & 1U;
  const std::uint32_t rounded = size + (1U << (dropped - 1)) - 1 + odd;
  const std::uint32_t normal =
      (rounded >> dropped) - (static_cast<std::uint32_t>(127 - Bias) << Fraction);
  // Adding 2^23 smallest numbers of the format to a subnormal one rounds it to a multiple
  // of the smallest number.
  constexpr std::uint32_t magic = power_of_two(24 - Bias - Fraction);
  const float sum = __builtin_bit_cast(float, size) + __builtin_bit_cast(float, magic);
  const std::uint32_t subnormal = __builtin_bit_cast(std::uint32_t, sum) - magic;
  return select(size < power_of_two(1 - Bias), subnormal, normal);
}

}  // namespace small_floats_detail

/// Decodes an IEEE 754 half. NaNs keep their fraction bits.
/// @source{IEEE 754-2008, binary16}
[[nodiscard]] WEIR_MATH float fp16_to_float(std::uint16_t bits) noexcept {
  using namespace small_floats_detail;
  const std::uint32_t code = bits & 0x7FFFU;
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t special = infinity_bits | (code & 0x3FFU) << 13;
  const std::uint32_t finite = widen<10, 15>(code);
  return __builtin_bit_cast(float, select(code >= 0x7C00, special, finite) | sign);
}

/// Decodes a bfloat16: the upper half of an fp32.
/// @source{Tessera Runtime & ABI, appendix B, bf16}
[[nodiscard]] WEIR_MATH float bf16_to_float(std::uint16_t bits) noexcept {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
}

/// Decodes an 8-bit float with 4 exponent and 3 fraction bits. It has no infinities; NaN
/// is 0x7F or 0xFF, and the other codes of the largest exponent are ordinary numbers.
/// @source{OCP 8-bit Floating Point Specification, E4M3}
[[nodiscard]] WEIR_MATH float fp8_e4m3_to_float(std::uint8_t bits) noexcept {
  using namespace small_floats_detail;
  const std::uint32_t code = bits & 0x7FU;
  const std::uint32_t sign = (bits & 0x80U) << 24;
  const std::uint32_t finite = widen<3, 7>(code);
  return __builtin_bit_cast(float, select(code == 0x7F, quiet_nan_bits, finite) | sign);
}

/// Decodes an 8-bit float with 5 exponent and 2 fraction bits. Every NaN becomes a quiet
/// one without further fraction bits.
/// @source{OCP 8-bit Floating Point Specification, E5M2}
[[nodiscard]] WEIR_MATH float fp8_e5m2_to_float(std::uint8_t bits) noexcept {
  using namespace small_floats_detail;
  const std::uint32_t code = bits & 0x7FU;
  const std::uint32_t sign = (bits & 0x80U) << 24;
  const std::uint32_t special = select(code == 0x7C, infinity_bits, quiet_nan_bits);
  const std::uint32_t finite = widen<2, 15>(code);
  return __builtin_bit_cast(float, select(code >= 0x7C, special, finite) | sign);
}

/// Encodes an IEEE 754 half. Numbers from 65520 on become infinite; NaNs become quiet and
/// keep their first fraction bits.
/// @source{IEEE 754-2008, binary16}
[[nodiscard]] WEIR_MATH std::uint16_t float_to_fp16(float value) noexcept {
  using namespace small_floats_detail;
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t size = bits & 0x7FFFFFFFU;
  const std::uint32_t finite =
      select(size < power_of_two(16), narrow<10, 15>(size), 0x7C00U);
  const std::uint32_t nan = 0x7E00U | (size >> 13 & 0x3FFU);
  const std::uint32_t code = select(size > infinity_bits, nan, finite);
  return static_cast<std::uint16_t>(code | (bits >> 16 & 0x8000U));
}

/// Encodes a bfloat16. NaNs become quiet and keep their first fraction bits.
/// @source{Tessera Runtime & ABI, appendix B, bf16}
[[nodiscard]] WEIR_MATH std::uint16_t float_to_bf16(float value) noexcept {
  using namespace small_floats_detail;
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t finite = (bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16;
  const std::uint32_t nan = bits >> 16 | 0x40U;
  const std::uint32_t size = bits & 0x7FFFFFFFU;
  return static_cast<std::uint16_t>(select(size > infinity_bits, nan, finite));
}

/// Encodes an 8-bit float with 4 exponent and 3 fraction bits. Numbers above 464, which
/// are nearer to 480 than to the largest number 448, become NaN, and so does infinity.
/// @source{OCP 8-bit Floating Point Specification, E4M3}
[[nodiscard]] WEIR_MATH std::uint8_t float_to_fp8_e4m3(float value) noexcept {
  using namespace small_floats_detail;
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t size = bits & 0x7FFFFFFFU;
  const std::uint32_t code = select(size < power_of_two(9), narrow<3, 7>(size), 0x7FU);
  const std::uint32_t limited = select(code > 0x7EU, 0x7FU, code);
  return static_cast<std::uint8_t>(limited | (bits >> 24 & 0x80U));
}

/// Encodes an 8-bit float with 5 exponent and 2 fraction bits. Numbers from 61440 on
/// become infinite; every NaN becomes the quiet one 0x7E with its sign.
/// @source{OCP 8-bit Floating Point Specification, E5M2}
[[nodiscard]] WEIR_MATH std::uint8_t float_to_fp8_e5m2(float value) noexcept {
  using namespace small_floats_detail;
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t size = bits & 0x7FFFFFFFU;
  const std::uint32_t finite =
      select(size < power_of_two(16), narrow<2, 15>(size), 0x7CU);
  const std::uint32_t code = select(size > infinity_bits, 0x7EU, finite);
  return static_cast<std::uint8_t>(code | (bits >> 24 & 0x80U));
}

}  // namespace weir
