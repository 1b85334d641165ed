// SPDX-License-Identifier: Apache-2.0
/// @file
/// The short wait of a thread: how it ends, and that it does not go on where other
/// programs use the processors.
#include <sched.h>

#include <atomic>
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

TEST(YieldingWaits, AskAgainUntilTheAnswerComes) {
  yielding_wait wait;
  int calls = 0;
  // The first calls take no time, so the limit cannot pass before the third; only a
  // thread that loses its processor here would make the wait end before.
  bool found = false;
  for (int attempt = 0; attempt < 100 && !found; ++attempt) {
    calls = 0;
    wait = {};
    found = wait([&] { return ++calls == 3; });
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(calls, 3);
}

TEST(YieldingWaits, EndAfterTheirLimitWhichWaitsInVainShorten) {
  yielding_wait wait;
  const std::int64_t begin = now_ns();
  EXPECT_FALSE(wait([] { return false; }));
  EXPECT_GE(now_ns() - begin, yielding_wait::max_ns);
  // Other programs may take the processor during a wait, and a wait that rests after a
  // slow yield takes no time. The test therefore looks for one that was not disturbed.
  const std::int64_t until = now_ns() + 30'000'000'000;
  std::int64_t took = 0;
  while ((took < yielding_wait::min_ns || took >= yielding_wait::max_ns / 2) &&
         now_ns() < until) {
    const std::int64_t start = now_ns();
    EXPECT_FALSE(wait([] { return false; }));
    took = now_ns() - start;
  }
  EXPECT_GE(took, yielding_wait::min_ns);
  EXPECT_LT(took, yielding_wait::max_ns / 2);
}

// The test uses one processor, on which a second thread computes. A yield lets that
// thread run for as long as the system gives it, milliseconds in most cases.
TEST(YieldingWaits, RestWhereAnotherThreadUsesTheProcessor) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) {
    ++first;
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
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
