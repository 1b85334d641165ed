// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the elementary functions against the C library in extended precision.
#include "weir/base/math/elementary.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "support/case_count.hpp"

namespace weir {
namespace {

/// Returns the distance of a result from the value that it should have, in units in the
/// last place of fp32 at that value. Zeros, infinities and NaNs must be equal; else the
/// distance is infinite.
long double distance_in_ulps(float found, long double value) {
  const auto rounded = static_cast<float>(value);
  if (std::isnan(rounded) || std::isnan(found)) {
    return std::isnan(rounded) == std::isnan(found) ? 0 : INFINITY;
  }
  if (std::isinf(rounded) || std::isinf(found) || rounded == 0 || found == 0) {
    const bool same = found == rounded && std::signbit(found) == std::signbit(rounded);
    return same ? 0 : INFINITY;
  }
  int exponent = 0;
  std::frexp(value, &exponent);
  const long double ulp = std::ldexp(1.0L, std::max(exponent - 24, -149));
  return std::abs(static_cast<long double>(found) - value) / ulp;
}

/// Expects errors below 0.501 units in the last place on every 997th pattern of bits.
template <class Found, class Exact>
void expect_rounded(Found found, Exact exact) {
  const std::uint64_t step = 997 * test::case_step();
  long double worst = 0;
  float at_worst = 0;
  for (std::uint64_t bits = 0; bits <= 0xFFFF'FFFFU; bits += step) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    const long double distance =
        distance_in_ulps(found(x), exact(static_cast<long double>(x)));
    if (!(distance <= worst)) {
      worst = distance;
      at_worst = x;
    }
  }
  EXPECT_LE(worst, 0.501L) << "at " << std::hexfloat << at_worst;
}

TEST(Elementary, ExponentialIsRoundedOnce) {
  expect_rounded([](float x) { return math::exp(x); },
                 [](long double x) { return std::exp(x); });
}
TEST(Elementary, LogarithmIsRoundedOnce) {
  expect_rounded([](float x) { return math::log(x); },
                 [](long double x) { return std::log(x); });
}
TEST(Elementary, HyperbolicTangentIsRoundedOnce) {
  expect_rounded([](float x) { return math::tanh(x); },
                 [](long double x) { return std::tanh(x); });
}
TEST(Elementary, ErrorFunctionIsRoundedOnce) {
  expect_rounded([](float x) { return math::erf(x); },
                 [](long double x) { return std::erf(x); });
}
TEST(Elementary, SineIsRoundedOnce) {
  expect_rounded([](float x) { return math::sin(x); },
                 [](long double x) { return std::sin(x); });
}
TEST(Elementary, CosineIsRoundedOnce) {
  expect_rounded([](float x) { return math::cos(x); },
                 [](long double x) { return std::cos(x); });
}
TEST(Elementary, SiluIsRoundedOnce) {
  expect_rounded([](float x) { return math::silu(x); },
                 [](long double x) {
                   return std::isinf(x) && x < 0 ? -0.0L : x / (1 + std::exp(-x));
                 });
}

TEST(Elementary, GeluDiffersByAtMostAQuarterOfAnUlpOfOne) {
  const std::uint64_t step = 997 * test::case_step();
  for (std::uint64_t bits = 0; bits <= 0xFFFF'FFFFU; bits += step) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    const auto wide = static_cast<long double>(x);
    const long double value = wide * std::erfc(-wide / std::sqrt(2.0L)) / 2;
    const float found = math::gelu(x);
    if (std::isinf(x) && x < 0) {
      EXPECT_EQ(found, 0.0F);
      continue;
    }
    const bool near = std::abs(static_cast<long double>(found) - value) <= 5e-8L;
    ASSERT_TRUE(near || distance_in_ulps(found, value) <= 0.501L)
        << std::hexfloat << x << " gives " << found;
  }
}

TEST(Elementary, AnglesOfTablesAreAccurate) {
  for (int i = 0; i < 200'000; ++i) {
    const double x = i * 1.31;
    const auto wide = static_cast<long double>(x);
    ASSERT_NEAR(math::table_sin(x), static_cast<double>(std::sin(wide)), 1e-13) << x;
    ASSERT_NEAR(math::table_cos(x), static_cast<double>(std::cos(wide)), 1e-13) << x;
  }
}

}  // namespace
}  // namespace weir
