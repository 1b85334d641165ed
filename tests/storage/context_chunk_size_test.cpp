// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "weir/storage/context.hpp"

using namespace weir;
using namespace weir::storage;

namespace {
const std::vector<std::uint64_t> periods = {4, 8, 64, 512};
}

TEST(ChunkSize, BelowTheFastestPeriodIsAnError) {
  const auto r = check_chunk_size(3, periods);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::invalid_argument);
  EXPECT_NE(r.error().text().find("period 4"), std::string::npos);
  EXPECT_NE(r.error().text().find("found 3"), std::string::npos);
  EXPECT_TRUE(check_chunk_size(4, periods));
  EXPECT_FALSE(check_chunk_size(0, {}));
}

TEST(ChunkSize, BelowTheSlowestPeriodIsAWarningThatNamesTheLevels) {
  const auto text = or_throw(check_chunk_size(64, periods));
  EXPECT_NE(text.find("3 (period 512)"), std::string::npos) << text;
  EXPECT_EQ(text.find("2 (period 64)"), std::string::npos) << text;
}

TEST(ChunkSize, MultiplesOfTheSlowestPeriodAreSilentAndOthersWarn) {
  EXPECT_EQ(or_throw(check_chunk_size(512, periods)), "");
  EXPECT_EQ(or_throw(check_chunk_size(1024, periods)), "");
  EXPECT_NE(or_throw(check_chunk_size(600, periods)), "");
}
