// SPDX-License-Identifier: Apache-2.0
/// @file
/// Elementary functions of fp32 that give the same bits on every processor, with every
/// compiler and on a GPU.
///
/// Each function computes in double precision with additions, multiplications and
/// divisions alone and rounds once at the end, so its error is below 0.501 units in the
/// last place. No library function, no intrinsic and no fused operation is involved; a
/// compiler must not contract expressions (`-ffp-contract=off`, nvcc: `-fmad=false`).
/// The functions are always inlined, and those without a loop or a branch (`exp`, `log`,
/// `tanh`, `erf`) become vector code inside loops. Vector code has the bits of the scalar
/// code, because no operation is reordered.
/// @threads{all functions: pure}
#pragma once

#include <cstdint>

#include "weir/base/math/device_inline.hpp"

namespace weir::math {

namespace elementary_detail {

/// Returns the bits of a double.
WEIR_MATH std::uint64_t bits_from(double x) noexcept {
  std::uint64_t bits = 0;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}
/// Returns the double that has these bits.
WEIR_MATH double double_from(std::uint64_t bits) noexcept {
  double x = 0;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}
/// Returns the bits of an fp32.
WEIR_MATH std::uint32_t bits_from(float x) noexcept {
  std::uint32_t bits = 0;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}

/// 1.5 * 2^52: adding it to a double rounds that to an integer, which is then in the low
/// bits of the sum.
inline constexpr double round_magic = 6755399441055744.0;
/// Bits of `round_magic`.
inline constexpr std::uint64_t round_magic_bits = 0x4338000000000000U;
/// Positive infinity.
inline constexpr double infinity = static_cast<double>(__builtin_inff());
/// log(2).
inline constexpr double log_2 = 0.69314718055994530942;

/// Returns e^x for a double in [-110, 110], and for other arguments that of the nearer
/// end of this interval: fp32 has no other values than 0 and infinity there. The relative
/// error is below 1e-11. NaN stays NaN.
///
/// x = n log(2) + r with an integer n; a Taylor polynomial gives e^r, and n is added to
/// the exponent.
WEIR_MATH double exp_wide(double x) noexcept {
  double y = x < -110.0 ? -110.0 : x;
  y = y > 110.0 ? 110.0 : y;
  const double shifted = y * 1.4426950408889634074 + round_magic;
  const double n = shifted - round_magic;
  const double r = y - n * log_2;
  double p = 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  const double scaled = double_from(bits_from(p) + (bits_from(shifted) << 52));
  return x != x ? x : scaled;
}

/// Returns log(x) for a positive normal double. x = 2^e m with m in [sqrt(1/2), sqrt(2)),
/// and log(m) = 2 atanh((m - 1) / (m + 1)) is a short series.
WEIR_MATH double log_wide(double x) noexcept {
  constexpr std::uint64_t root_half = 0x3FE6A09E667F3BCDU;
  const std::uint64_t bits = bits_from(x);
  const std::uint64_t e = (bits - root_half + 0x3FF0000000000000U) >> 52;  // plus 1023
  const double m = double_from(bits - (e << 52) + 0x3FF0000000000000U);
  const double exponent = double_from(round_magic_bits + e) - round_magic - 1023.0;
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double p = 1.0 / 17.0;
  p = p * z + 1.0 / 15.0;
  p = p * z + 1.0 / 13.0;
  p = p * z + 1.0 / 11.0;
  p = p * z + 1.0 / 9.0;
  p = p * z + 1.0 / 7.0;
  p = p * z + 1.0 / 5.0;
  p = p * z + 1.0 / 3.0;
  p = p * z + 1.0;
  return exponent * log_2 + 2.0 * s * p;
}

/// Returns the error function for a double. From 4 on, the result is 1: erf(4) and 1 are
/// the same fp32 number.
///
/// erf(x) / x is a function of x^2. The polynomial interpolates it at Chebyshev points of
/// x^2 in [0, 16]; its relative error is below 1e-12.
WEIR_MATH double erf_wide(double x) noexcept {
  const double limited = x > 4.0 ? 4.0 : (x < -4.0 ? -4.0 : x);
  const double t = (limited * limited - 8.0) * 0.125;
  double p = 1.4883137738024427e-06;
  p = p * t + -4.586436654384096e-06;
  p = p * t + 5.069598611100321e-06;
  p = p * t + -1.2635295810882527e-05;
  p = p * t + 5.0516480984461565e-05;
  p = p * t + -0.00012649419013464726;
  p = p * t + 0.0002730868781407246;
  p = p * t + -0.0006048631720031436;
  p = p * t + 0.0012940700205056187;
  p = p * t + -0.0025830290325423205;
  p = p * t + 0.004852986669306072;
  p = p * t + -0.008604359881842768;
  p = p * t + 0.01434973873577006;
  p = p * t + -0.02247402944863727;
  p = p * t + 0.033060611596419896;
  p = p * t + -0.04576504084136504;
  p = p * t + 0.05988690674393009;
  p = p * t + -0.07472787156784315;
  p = p * t + 0.09020899404424358;
  p = p * t + -0.10771044230403215;
  p = p * t + 0.13167511689547207;
  p = p * t + -0.17657623330392602;
  p = p * t + 0.35353099564340495;
  return limited * p;
}

/// Returns sin(r) for |r| <= pi / 4.
WEIR_MATH double sin_near_zero(double r) noexcept {
  const double z = r * r;
  double p = 1.0 / 6227020800.0;
  p = p * z + -1.0 / 39916800.0;
  p = p * z + 1.0 / 362880.0;
  p = p * z + -1.0 / 5040.0;
  p = p * z + 1.0 / 120.0;
  p = p * z + -1.0 / 6.0;
  return r + r * (z * p);
}
/// Returns cos(r) for |r| <= pi / 4.
WEIR_MATH double cos_near_zero(double r) noexcept {
  const double z = r * r;
  double p = -1.0 / 87178291200.0;
  p = p * z + 1.0 / 479001600.0;
  p = p * z + -1.0 / 3628800.0;
  p = p * z + 1.0 / 40320.0;
  p = p * z + -1.0 / 720.0;
  p = p * z + 1.0 / 24.0;
  p = p * z + -0.5;
  return 1.0 + z * p;
}

/// An angle as a multiple of pi / 2 and a rest in [-pi / 4, pi / 4].
struct reduced_angle {
  double rest;             ///< in radians
  std::uint64_t quadrant;  ///< number of quarter turns, modulo 4
};

/// Reduces an angle whose absolute value is below 2^18. pi / 2 has two parts; the product
/// of the first, which has 33 bits, and an integer below 2^20 is exact.
WEIR_MATH reduced_angle reduce(double x) noexcept {
  const double shifted = x * 0.63661977236758134308 + round_magic;
  const double n = shifted - round_magic;
  const double rest = (x - n * 1.5707963267341256) - n * 6.077100506506192e-11;
  return {rest, bits_from(shifted) & 3U};
}

/// Returns word `index` of the binary digits of 2 / pi behind the point. The first word
/// is zero, so that a window can begin before them.
WEIR_MATH std::uint64_t two_over_pi(std::uint32_t index) noexcept {
  constexpr std::uint32_t digits[] = {0,           0xA2F9836EU, 0x4E441529U, 0xFC2757D1U,
                                      0xF534DDC0U, 0xDB629599U, 0x3C439041U, 0xFE5163ABU};
  return digits[index];
}

/// Reduces a finite fp32 whose absolute value is at least 2^18.
///
/// x = m 2^e with an integer m of 24 bits. Digits of 2 / pi that make a multiple of 4
/// with m 2^e are left out, and the 96 digits behind them are multiplied by m.
WEIR_MATH reduced_angle reduce_large(float x) noexcept {
  const std::uint32_t bits = bits_from(x);
  const auto exponent = static_cast<std::int32_t>(bits >> 23 & 0xFFU) - 150;
  const std::uint64_t m = (bits & 0x7FFFFFU) | 0x800000U;
  const auto first = static_cast<std::uint32_t>(exponent - 2 + 32);  // digit, 32 are zero
  const std::uint32_t word = first / 32;
  const std::uint32_t shift = first % 32;
  std::uint64_t window[3] = {};
  for (std::uint32_t i = 0; i < 3; ++i) {
    const std::uint64_t pair =
        two_over_pi(word + i) << 32 | (word + i + 1 < 8 ? two_over_pi(word + i + 1) : 0U);
    window[i] = pair << shift >> 32;
  }
  // The top two of the 64 bits count quarter turns.
  const std::uint64_t turn =
      (m * window[0] << 32) + m * window[1] + (m * window[2] >> 32);
  const std::uint64_t quadrant = (turn + (std::uint64_t{1} << 61)) >> 62 & 3U;
  const auto rest = static_cast<std::int64_t>(turn - (quadrant << 62));
  const double angle = static_cast<double>(rest) * 0x1p-62 * 1.5707963267948966192;
  return (bits >> 31) != 0 ? reduced_angle{-angle, (0U - quadrant) & 3U}
                           : reduced_angle{angle, quadrant};
}

/// Returns the sine of an angle that is `quarters` quarter turns larger.
WEIR_MATH double sine(reduced_angle a, std::uint64_t quarters) noexcept {
  const std::uint64_t quadrant = (a.quadrant + quarters) & 3U;
  const double value =
      (quadrant & 1U) != 0 ? cos_near_zero(a.rest) : sin_near_zero(a.rest);
  return (quadrant & 2U) != 0 ? -value : value;
}

/// Returns the sine of an fp32 angle that is `quarters` quarter turns larger.
WEIR_MATH float sine_f32(float x, std::uint64_t quarters) noexcept {
  const std::uint32_t size = bits_from(x) & 0x7FFFFFFFU;
  if (size >= 0x7F800000U) {
    return x - x;  // NaN
  }
  constexpr std::uint32_t two_to_18 = 145U << 23;
  const reduced_angle a =
      size < two_to_18 ? reduce(static_cast<double>(x)) : reduce_large(x);
  return static_cast<float>(sine(a, quarters));
}

}  // namespace elementary_detail

/// Returns e^x. Results below 2^-150 are 0, those above the largest fp32 are infinite.
[[nodiscard]] WEIR_MATH float exp(float x) noexcept {
  return static_cast<float>(elementary_detail::exp_wide(static_cast<double>(x)));
}

/// Returns the natural logarithm. It is -infinity for 0 and NaN for negative numbers.
[[nodiscard]] WEIR_MATH float log(float x) noexcept {
  using namespace elementary_detail;
  const auto wide = static_cast<double>(x);
  double y = log_wide(wide);
  y = wide == infinity ? infinity : y;
  y = wide == 0.0 ? -infinity : y;
  y = wide < 0.0 ? infinity - infinity : y;
  return static_cast<float>(wide != wide ? wide : y);
}

/// Returns the hyperbolic tangent.
[[nodiscard]] WEIR_MATH float tanh(float x) noexcept {
  using namespace elementary_detail;
  const auto wide = static_cast<double>(x);
  const double size = wide < 0.0 ? -wide : wide;
  // Near 0 the difference below would lose the bits of x.
  const double near = wide - wide * wide * wide * (1.0 / 3.0);
  const double far = 1.0 - 2.0 / (exp_wide(2.0 * size) + 1.0);
  const double y = wide < 0.0 ? -far : far;
  return static_cast<float>(size < 0x1p-12 ? near : y);
}

/// Returns the error function.
[[nodiscard]] WEIR_MATH float erf(float x) noexcept {
  return static_cast<float>(elementary_detail::erf_wide(static_cast<double>(x)));
}

/// Returns the sine of an angle in radians. It is NaN for infinite angles.
[[nodiscard]] WEIR_MATH float sin(float x) noexcept {
  return x == 0.0F ? x : elementary_detail::sine_f32(x, 0);
}

/// Returns the cosine of an angle in radians. It is NaN for infinite angles.
[[nodiscard]] WEIR_MATH float cos(float x) noexcept {
  return elementary_detail::sine_f32(x, 1);
}

/// Returns the sine of an angle in radians in double precision, with an error of at most
/// 1e-13. It is for tables that are rounded to fp32.
/// @pre |x| < 2^18
[[nodiscard]] WEIR_MATH double table_sin(double x) noexcept {
  return elementary_detail::sine(elementary_detail::reduce(x), 0);
}
/// Returns the cosine of an angle in radians in double precision, with an error of at
/// most 1e-13. It is for tables that are rounded to fp32.
/// @pre |x| < 2^18
[[nodiscard]] WEIR_MATH double table_cos(double x) noexcept {
  return elementary_detail::sine(elementary_detail::reduce(x), 1);
}

/// Returns x / (1 + e^-x), the activation SiLU. It is computed in double precision and
/// rounded once; below -110 the result is -0.
[[nodiscard]] WEIR_MATH float silu(float x) noexcept {
  const auto wide = static_cast<double>(x);
  const double y = wide / (1.0 + elementary_detail::exp_wide(-wide));
  return static_cast<float>(wide < -110.0 ? -0.0 : y);
}

/// Returns x (1 + erf(x / sqrt(2))) / 2, the activation GELU in its exact form. It is
/// computed in double precision and rounded once. Below -4 sqrt(2), where the value is
/// between -5e-8 and 0, the result is -0.
[[nodiscard]] WEIR_MATH float gelu(float x) noexcept {
  const auto wide = static_cast<double>(x);
  const double scaled = wide * 0.70710678118654752440;
  const double y = 0.5 * wide * (1.0 + elementary_detail::erf_wide(scaled));
  return static_cast<float>(scaled < -4.0 ? -0.0 : y);
}

}  // namespace weir::math
