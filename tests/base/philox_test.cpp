// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the counter-based random numbers: published vectors, moments of the normal
/// distribution, bounds, and dependence on seed, stream and index.
#include "weir/base/philox.hpp"

#include <gtest/gtest.h>

#include <cmath>

using namespace weir;
using block = std::array<std::uint32_t, 4>;

TEST(Philox, EqualsTheThreePublishedVectors) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t f = 0xffffffff;
  EXPECT_EQ(philox4x32({f, f, f, f}, {f, f}),
            (block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                       {0xa4093822, 0x299f31d0}),
            (block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, NormalHasMeanZeroAndVarianceOne) {
  const philox random(3, 4);
  double sum = 0;
  double squares = 0;
  constexpr int n = 200000;
  for (std::uint64_t i = 0; i < n; ++i) {
    const double x = random.normal(i);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / n, 0, 0.01);
  EXPECT_NEAR(squares / n, 1, 0.01);
}

TEST(Philox, BelowStaysInBoundsAndReachesEveryValue) {
  const philox random(1, 2);
  std::array<int, 7> seen{};
  for (std::uint64_t i = 0; i < 7000; ++i) {
    const auto x = random.below(i, 7);
    ASSERT_LT(x, 7U);
    ++seen[x];
  }
  for (int count : seen) {
    EXPECT_GT(count, 800);
  }
}

TEST(Philox, ValueDependsOnSeedStreamAndIndexAlone) {
  EXPECT_EQ(philox(5, 6).bits(7), philox(5, 6).bits(7));
  EXPECT_NE(philox(5, 6).bits(7), philox(5, 6).bits(8));
  EXPECT_NE(philox(5, 6).bits(7), philox(5, 7).bits(7));
  EXPECT_NE(philox(5, 6).bits(7), philox(6, 6).bits(7));
}
