// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the conversion of 8-bit and 16-bit floats for every code, against the definition
/// of their formats.
#include "weir/base/small_floats.hpp"

#include <gtest/gtest.h>

#include <cmath>
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

}  // namespace
}  // namespace weir
