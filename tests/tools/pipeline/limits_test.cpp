// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests limits in words.
#include "pipeline/limits.hpp"

#include <gtest/gtest.h>

namespace weir::tools {
namespace {

TEST(Limits, ReadItemsBytesAndTimes) {
  const auto both = parse_limits("8 items, 64 MiB");
  ASSERT_TRUE(both);
  EXPECT_EQ(both->items, 8U);
  EXPECT_EQ(both->bytes, std::uint64_t{64} << 20);
  EXPECT_FALSE(both->seconds);
  EXPECT_EQ(parse_limits("1item")->items, 1U);
  EXPECT_EQ(parse_limits(" 4096 B ")->bytes, 4096U);
  EXPECT_EQ(parse_limits("30 s")->seconds, 30.0);
  EXPECT_EQ(parse_limits("250 ms")->seconds, 0.25);
  EXPECT_EQ(parse_limits("1.5 min")->seconds, 90.0);
  EXPECT_EQ(parse_limits("2 h, 1000 items")->seconds, 7200.0);
}

TEST(Limits, RefuseOtherTexts) {
  for (const char* bad :
       {"", ",", "8", "items", "0 items", "-1 items", "1.5 items", "8 items,", "8 apples",
        "8 items, 9 items", "1 MiB, 2 GiB", "0 s", "nan s", "1e9 h", "1 s 2 items",
        "99999999999999999999 items", "18446744073709551615 GiB", "1..5 s"}) {
    EXPECT_FALSE(parse_limits(bad)) << bad;
  }
}

}  // namespace
}  // namespace weir::tools
