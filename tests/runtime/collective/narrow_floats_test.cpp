// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the conversion of every code of fp8, fp16 and bf16 in both directions, and of
/// fp32 numbers around every rounding decision.
#include <gtest/gtest.h>

#include "collective/kernels/narrow_floats.hpp"
#include "oracle.hpp"

namespace weir::collective {
namespace {

using test::float_format;

/// Returns the code of x, converted to T.
template <class T>
std::uint64_t code_of(float x) {
  T out;
  from_float(x, out);
  return out.bits;
}

/// Converts every code of the type to fp32 and back.
template <class T>
void check_all_codes(dtype type) {
  const float_format f = test::format_of(type);
  for (std::uint64_t code = 0; code < std::uint64_t{1} << f.bits; ++code) {
    T x;
    x.bits = static_cast<decltype(x.bits)>(code);
    const double expected = test::value_of(f, code);
    const float found = to_float(x);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(found)) << "code " << code;
      ASSERT_EQ(code_of<T>(found), f.nan) << "code " << code;
    } else {
      ASSERT_EQ(static_cast<double>(found), expected) << "code " << code;
      ASSERT_EQ(std::signbit(found), std::signbit(expected)) << "code " << code;
      ASSERT_EQ(code_of<T>(found), code);
    }
  }
}

/// Converts, with both signs, every value of the type and fp32 numbers at, just below and
/// just above every midpoint of two neighbours.
template <class T>
void check_all_roundings(dtype type) {
  const float_format f = test::format_of(type);
  for (std::uint64_t code = 0; code <= f.largest; ++code) {
    const double here = test::value_of(f, code);
    const test::scaled next = test::scaled_of(f, code + 1);
    const double above = std::ldexp(static_cast<double>(next.significand), next.exponent);
    const auto middle = static_cast<float>((here + above) / 2);
    for (const float x : {std::nextafter(middle, 0.0F), middle,
                          std::nextafter(middle, HUGE_VALF), static_cast<float>(here)}) {
      if (!std::isfinite(x)) {
        continue;
      }
      const std::uint64_t expected = test::rounded(f, static_cast<double>(x));
      ASSERT_EQ(code_of<T>(x), expected) << "of " << x;
      ASSERT_EQ(code_of<T>(-x), expected | test::sign_bit(f)) << "of " << -x;
    }
  }
}

/// Compares the rounding of random fp32 numbers with the oracle.
template <class T>
void check_random_bits(dtype type) {
  const std::uint64_t seed = 99;
  std::mt19937_64 dice(seed);
  const float_format f = test::format_of(type);
  for (int i = 0; i < 20'000; ++i) {
    const float x = float_of(static_cast<std::uint32_t>(dice()));
    ASSERT_EQ(code_of<T>(x), test::rounded(f, static_cast<double>(x)))
        << "bits " << bits_of(x) << " seed " << seed;
    const auto inf = static_cast<float>(HUGE_VAL);
    ASSERT_EQ(code_of<T>(inf), test::rounded(f, HUGE_VAL));
    ASSERT_EQ(code_of<T>(-inf), test::rounded(f, -HUGE_VAL));
  }
}

TEST(NarrowFloats, E4m3) {
  check_all_codes<e4m3_bits>(dtype::fp8_e4m3);
  check_all_roundings<e4m3_bits>(dtype::fp8_e4m3);
  check_random_bits<e4m3_bits>(dtype::fp8_e4m3);
}
TEST(NarrowFloats, E5m2) {
  check_all_codes<e5m2_bits>(dtype::fp8_e5m2);
  check_all_roundings<e5m2_bits>(dtype::fp8_e5m2);
  check_random_bits<e5m2_bits>(dtype::fp8_e5m2);
}
TEST(NarrowFloats, Half) {
  check_all_codes<half_bits>(dtype::fp16);
  check_all_roundings<half_bits>(dtype::fp16);
  check_random_bits<half_bits>(dtype::fp16);
}
TEST(NarrowFloats, Bfloat) {
  check_all_codes<bfloat_bits>(dtype::bf16);
  check_all_roundings<bfloat_bits>(dtype::bf16);
  check_random_bits<bfloat_bits>(dtype::bf16);
}

TEST(NarrowFloats, AFloatRoundedToOddRoundsOnLikeTheDouble) {
  const std::uint64_t seed = 4;
  std::mt19937_64 dice(seed);
  const float_format f = test::format_of(dtype::fp16);
  for (int i = 0; i < 50'000; ++i) {
    // The number differs from the midpoint of two halves by less than an fp32 can
    // represent.
    half_bits h;
    h.bits = static_cast<std::uint16_t>(dice() % 0x7BFF);
    const double middle =
        (test::value_of(f, h.bits) + test::value_of(f, h.bits + 1U)) / 2;
    const double x = middle * (1 + std::ldexp(static_cast<double>(dice() % 5) - 2, -50));
    half_bits out;
    from_float(to_odd_float(x), out);
    ASSERT_EQ(out.bits, test::rounded(f, x)) << x << " seed " << seed;
    from_float(to_cut_float(x), out);
    ASSERT_EQ(out.bits, test::rounded(f, x)) << x << " cut, seed " << seed;
  }
  EXPECT_EQ(to_odd_float(1.0), 1.0F);
  EXPECT_EQ(to_odd_float(-HUGE_VAL), -HUGE_VALF);
  EXPECT_TRUE(std::isnan(to_odd_float(std::nan(""))));
  EXPECT_EQ(to_cut_float(-HUGE_VAL), -HUGE_VALF);
  EXPECT_TRUE(std::isnan(to_cut_float(std::nan("1"))));
  EXPECT_EQ(to_cut_float(-0.0), 0.0F);
}

}  // namespace
}  // namespace weir::collective
