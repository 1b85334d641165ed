// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rates, stalls and problems of a pipeline's run.
#include <gtest/gtest.h>

#include "progress/progress_state.hpp"

namespace weir::actors {
namespace {

host_sample sample(std::int64_t seconds, std::uint64_t items) {
  host_sample s;
  s.time_ns = seconds * 1'000'000'000;
  s.items = items;
  return s;
}

TEST(ProgressState, TheRateIsThatOfTheLastSeconds) {
  progress_state state(1, {});
  EXPECT_EQ(state.take(sample(0, 0)).items_per_second, 0);
  EXPECT_DOUBLE_EQ(state.take(sample(10, 1000)).items_per_second, 100);
  EXPECT_DOUBLE_EQ(state.take(sample(11, 1010)).items_per_second, 10)
      << "the sample of 10 s before is forgotten";
  EXPECT_DOUBLE_EQ(state.take(sample(12, 1010)).items_per_second, 5);
}

TEST(ProgressState, PassesOnWhereTheRunStands) {
  progress_state state(1, {});
  host_sample s = sample(1, 7);
  s.epochs = 3;
  s.durable_items = 5;
  s.generation = 9;
  s.bottleneck = "slow";
  const pipeline_progress p = state.take(s);
  EXPECT_EQ(p.items, 7U);
  EXPECT_EQ(p.epochs, 3U);
  EXPECT_EQ(p.durable_items, 5U);
  EXPECT_EQ(p.generation, 9U);
  EXPECT_EQ(p.bottleneck, "slow");
  EXPECT_EQ(state.line(),
            "7 items, 0 items/s, 3 checkpoints, durable before item 5, limited by slow");
}

TEST(ProgressState, AStallIsToldOnceWithItsReasons) {
  progress_state state(1'000, {});
  host_sample s = sample(1, 0);
  s.idle_ns = 1'000;
  s.waiting = "\"a\" waits for input";
  static_cast<void>(state.take(s));
  EXPECT_FALSE(state.stall());
  s.idle_ns = 1'001;
  static_cast<void>(state.take(s));
  const auto stalled = state.stall();
  ASSERT_TRUE(stalled);
  EXPECT_EQ(stalled->code(), errc::timeout);
  EXPECT_EQ(stalled->text(), "the pipeline makes no progress: \"a\" waits for input");
  static_cast<void>(state.take(s));
  EXPECT_FALSE(state.stall());
}

TEST(ProgressState, AProblemOfAStageIsToldOnce) {
  progress_state state(1, {"read", "write"});
  std::vector<figures> now(2);
  now[1].problem("the picture is left out");
  EXPECT_EQ(state.new_problems(now),
            std::vector<std::string>{"stage \"write\": the picture is left out"});
  EXPECT_TRUE(state.new_problems(now).empty());
}

}  // namespace
}  // namespace weir::actors
