// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the pause that a copy of the state causes, and the counts of durations.
#include "stages/prose/pause_meter.hpp"

#include <gtest/gtest.h>

#include "stages/prose/durations.hpp"

namespace weir::actors {
namespace {

TEST(pause_meter, takes_the_usual_interval_off) {
  pause_meter m;
  std::int64_t now = 1;
  for (int i = 0; i < 20; ++i) {
    now += 1'000'000;
    m.ended(now, false);
  }
  now += 3'000'000;
  m.ended(now, true);
  EXPECT_DOUBLE_EQ(m.pause_ms(), 2.0);
}

TEST(pause_meter, forgets_pauses_of_long_ago) {
  pause_meter m;
  std::int64_t now = 1;
  m.ended(now, false);
  m.ended(now += 1'000'000, false);
  for (int i = 0; i < 9000; ++i) {
    m.ended(now += i < 5000 ? 2'000'000 : 4'000'000, true);
  }
  EXPECT_DOUBLE_EQ(m.pause_ms(), 3.0);
}

TEST(duration_counts, have_quantiles_that_are_at_most_an_eighth_too_large) {
  duration_counts none;
  EXPECT_EQ(none.quantile(0.5), 0.0);
  for (const std::int64_t ns :
       {1LL, 7LL, 8LL, 1000LL, 123'456'789LL, 9'000'000'000'000LL}) {
    duration_counts one;
    one.add(ns);
    const double exact = static_cast<double>(ns) * 1e-9;
    EXPECT_GE(one.quantile(0.5), exact * (1 - 1e-9)) << ns;
    EXPECT_LE(one.quantile(0.5), exact * 1.125 + 1e-15) << ns;
  }
  duration_counts many;
  for (int i = 0; i < 99; ++i) {
    many.add(1000);
  }
  many.add(50'000);
  EXPECT_LT(many.quantile(0.99), 1200e-9);
  EXPECT_GT(many.quantile(1), 49'000e-9);
}

}  // namespace
}  // namespace weir::actors
