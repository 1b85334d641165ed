// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the pause that a copy of the state causes.
#include "stages/prose/pause_meter.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace weir::actors
