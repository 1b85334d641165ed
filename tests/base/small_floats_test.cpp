// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the conversion of 8-bit and 16-bit floats for every code, against the definition
/// of their formats.
#include "weir/base/small_floats.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace weir {
namespace {

/// Computes the value of a float by the definition of its format: sign, exponent,
/// fraction. The largest exponent holds infinities and NaNs if `has_infinity`.
double by_definition(std::uint32_t bits, int exponent_bits, int fraction_bits,
                     bool has_infinity) {
  const std::uint32_t fraction = bits & ((1U << fraction_bits) - 1);
  const int largest = (1 << exponent_bits) - 1;
  const int exponent = static_cast<int>(bits >> fraction_bits) & largest;
  const int bias = largest / 2;
  const double sign = (bits >> (exponent_bits + fraction_bits) & 1U) != 0 ? -1 : 1;
  if (has_infinity && exponent == largest) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  const double hidden_bit = exponent == 0 ? 0 : std::ldexp(1.0, fraction_bits);
  return sign *
         std::ldexp(fraction + hidden_bit, std::max(exponent, 1) - bias - fraction_bits);
}

/// Expects equal values with equal signs, which tells the two zeros apart; any NaN equals
/// any NaN.
void expect_same(float found, double expected, std::uint32_t bits) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(found)) << bits;
  } else {
    EXPECT_EQ(static_cast<double>(found), expected) << bits;
    EXPECT_EQ(std::signbit(found), std::signbit(expected)) << bits;
  }
}

TEST(SmallFloats, EveryCodeHasTheValueOfItsDefinition) {
  for (std::uint32_t bits = 0; bits < 0x1'0000; ++bits) {
    const auto code = static_cast<std::uint16_t>(bits);
    expect_same(fp16_to_float(code), by_definition(bits, 5, 10, true), bits);
    expect_same(bf16_to_float(code), by_definition(bits, 8, 7, true), bits);
  }
  for (std::uint32_t bits = 0; bits < 0x100; ++bits) {
    const auto code = static_cast<std::uint8_t>(bits);
    expect_same(fp8_e5m2_to_float(code), by_definition(bits, 5, 2, true), bits);
    const bool nan = (bits & 0x7F) == 0x7F;
    expect_same(fp8_e4m3_to_float(code),
                nan ? std::nan("") : by_definition(bits, 4, 3, false), bits);
  }
}

TEST(SmallFloats, LargestAndSmallestNumbersAreThePublishedOnes) {
  EXPECT_EQ(fp16_to_float(0x7BFF), 65504.0F);
  EXPECT_EQ(fp16_to_float(0x0001), 0x1p-24F);
  EXPECT_EQ(fp8_e4m3_to_float(0x7E), 448.0F);
  EXPECT_EQ(fp8_e4m3_to_float(0x01), 0x1p-9F);
  EXPECT_EQ(fp8_e5m2_to_float(0x7B), 57344.0F);
  EXPECT_EQ(fp8_e5m2_to_float(0x01), 0x1p-16F);
}

/// Expects that `encode` maps every value of the finite codes [0, end) to its code, a
/// number between two of them to the nearer one, and the middle to the even one, for both
/// signs. `beyond` is the code behind the largest finite one, which would have the value
/// `next` if the format went on.
template <class Encode, class Decode>
void expect_nearest(Encode encode, Decode decode, std::uint32_t end, std::uint32_t beyond,
                    double next, std::uint32_t sign) {
  for (std::uint32_t code = 0; code < end; ++code) {
    const double low = decode(code);
    const double high = code + 1 < end ? decode(code + 1) : next;
    const std::uint32_t above = code + 1 < end ? code + 1 : beyond;
    // The middle has one more bit than the codes, so it is exact in fp32.
    const auto middle = static_cast<float>((low + high) / 2);
    const auto less = std::nextafter(middle, 0.0F);
    const auto more = std::nextafter(middle, std::numeric_limits<float>::infinity());
    const auto exact = static_cast<float>(low);
    ASSERT_EQ(encode(exact), code);
    ASSERT_EQ(encode(less), code);
    ASSERT_EQ(encode(more), above);
    ASSERT_EQ(encode(middle), code % 2 == 0 ? code : above) << code;
    ASSERT_EQ(encode(-exact), code | sign);
    ASSERT_EQ(encode(-more), above | sign);
  }
}

TEST(SmallFloats, EncodingGivesTheNearestValueAndTheEvenCodeBetweenTwo) {
  expect_nearest([](float x) { return std::uint32_t{float_to_fp16(x)}; },
                 [](std::uint32_t c) { return by_definition(c, 5, 10, true); }, 0x7C00,
                 0x7C00, 65536, 0x8000);
  expect_nearest([](float x) { return std::uint32_t{float_to_bf16(x)}; },
                 [](std::uint32_t c) { return by_definition(c, 8, 7, true); }, 0x7F7F,
                 0x7F7F, by_definition(0x7F7F, 8, 7, true), 0x8000);
  expect_nearest([](float x) { return std::uint32_t{float_to_fp8_e4m3(x)}; },
                 [](std::uint32_t c) { return by_definition(c, 4, 3, false); }, 0x7F,
                 0x7F, 480, 0x80);
  expect_nearest([](float x) { return std::uint32_t{float_to_fp8_e5m2(x)}; },
                 [](std::uint32_t c) { return by_definition(c, 5, 2, true); }, 0x7C, 0x7C,
                 65536, 0x80);
}

TEST(SmallFloats, EncodedSpecialValuesAreSpecial) {
  const float infinity = std::numeric_limits<float>::infinity();
  const auto nan = std::bit_cast<float>(0x7FA0'0001U);
  EXPECT_EQ(float_to_fp16(infinity), 0x7C00);
  EXPECT_EQ(float_to_fp16(1e30F), 0x7C00);
  EXPECT_EQ(float_to_fp16(-nan), 0xFF00);
  EXPECT_EQ(float_to_bf16(-infinity), 0xFF80);
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(float_to_bf16(nan), 0x7FE0);
  EXPECT_EQ(float_to_fp8_e4m3(infinity), 0x7F);
  EXPECT_EQ(float_to_fp8_e4m3(-nan), 0xFF);
  EXPECT_EQ(float_to_fp8_e4m3(-1e30F), 0xFF);
  EXPECT_EQ(float_to_fp8_e5m2(-infinity), 0xFC);
  EXPECT_EQ(float_to_fp8_e5m2(1e30F), 0x7C);
  EXPECT_EQ(float_to_fp8_e5m2(nan), 0x7E);
}

}  // namespace
}  // namespace weir
