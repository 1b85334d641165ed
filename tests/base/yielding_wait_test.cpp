// SPDX-License-Identifier: Apache-2.0
/// @file
/// The short wait of a thread: how it ends, and that it does not go on where other
/// programs use the processors.
#include <sched.h>

#include <atomic>
#include <cstddef>
#include <thread>

#include <gtest/gtest.h>

#include "weir/base/clock.hpp"
#include "weir/base/system/yielding_wait.hpp"

namespace weir {
namespace {

TEST(YieldingWaits, AskOnceIfTheAnswerIsThere) {
  yielding_wait wait;
  int calls = 0;
  EXPECT_TRUE(wait([&] { return ++calls == 1; }));
  EXPECT_EQ(calls, 1);
}

TEST(YieldingWaits, AskAgainBehindEachYield) {
  yielding_wait wait;
  int calls = 0;
  // However long the yield takes, one look follows it.
  EXPECT_TRUE(wait([&] { return ++calls == 2; }));
  EXPECT_EQ(calls, 2);
}

/// Returns the time of a wait in vain, in nanoseconds.
std::int64_t time_in_vain(yielding_wait& wait) {
  const std::int64_t begin = now_ns();
  EXPECT_FALSE(wait([] { return false; }));
  return now_ns() - begin;
}

TEST(YieldingWaits, EndAfterTheirLimit) {
  yielding_wait wait;
  EXPECT_GE(time_in_vain(wait), yielding_wait::max_ns);
}

// Other programs may use the processors, and a wait that rests after a slow yield takes
// no time. The test therefore looks for waits that were not disturbed.
TEST(YieldingWaits, AreShorterAfterWaitsInVainAndLongerAfterOthers) {
  constexpr int enough = 50;
  yielding_wait wait;
  const std::int64_t until = now_ns() + 20'000'000'000;
  bool shorter = false;
  int undisturbed = 0;
  while (!shorter && undisturbed < enough && now_ns() < until) {
    const std::int64_t took = time_in_vain(wait);
    const bool waited = took >= yielding_wait::min_ns;
    undisturbed += waited && took < 2 * yielding_wait::max_ns ? 1 : 0;
    shorter = waited && took < yielding_wait::max_ns / 2;
  }
  // One wait may be long because it was disturbed, five in a row are not.
  int in_a_row = 0;
  int measured = 0;
  while (shorter && in_a_row < 5 && measured < enough && now_ns() < until) {
    for (int i = 0; i < 20; ++i) {
      int calls = 0;
      static_cast<void>(wait([&calls] { return ++calls == 2; }));
    }
    const std::int64_t took = time_in_vain(wait);
    measured += took >= yielding_wait::min_ns ? 1 : 0;
    in_a_row = took >= yielding_wait::max_ns ? in_a_row + 1 : 0;
  }
  const bool longer = in_a_row == 5;
  if (!longer && (shorter ? measured : undisturbed) < enough) {
    GTEST_SKIP() << "other programs used the processors all the time";
  }
  EXPECT_TRUE(shorter);
  EXPECT_TRUE(longer);
}

// The test uses one processor, on which a second thread computes. A yield lets that
// thread run for as long as the system gives it, milliseconds in most cases.
TEST(YieldingWaits, RestWhereAnotherThreadUsesTheProcessor) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  std::atomic<bool> over = false;
  std::thread other([&over] {
    while (!over.load(std::memory_order_relaxed)) {
    }
  });
  yielding_wait wait;
  bool rested = false;
  const std::int64_t until = now_ns() + 10'000'000'000;
  while (!rested && now_ns() < until) {
    int calls = 0;
    EXPECT_FALSE(wait([&calls] {
      ++calls;
      return false;
    }));
    // A wait that rests asks once and yields to nobody.
    rested = calls == 1;
  }
  over = true;
  other.join();
  EXPECT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_TRUE(rested);
}

}  // namespace
}  // namespace weir
