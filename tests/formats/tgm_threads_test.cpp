// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests loops whose pieces run on several threads.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

#include "tensogram/codec/parallel.hpp"
#include "weir/base/system/sanitizers.hpp"

namespace weir::formats {
namespace {

/// Returns whether every piece is done once, in a loop whose pieces are loops themselves.
bool each_once(unsigned threads) {
  std::vector<int> done(17);
  std::atomic<int> inner{0};
  for_each_piece(threads, done.size(), [&](std::size_t i) {
    ++done[i];
    for_each_piece(threads, 3, [&](std::size_t) { ++inner; });
  });
  return done == std::vector<int>(17, 1) && inner == 51;
}

TEST(TensogramThreads, EveryPieceIsProcessedOnceWithConcurrentCallers) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 3; ++c) {
    callers.emplace_back([&] {
      for (unsigned round = 0; round < 300; ++round) {
        wrong += each_once(1 + round % 5) ? 0 : 1;
      }
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  EXPECT_EQ(wrong, 0);
}

TEST(TensogramThreads, AnExceptionOfAPieceReachesTheCallerAndTheNextLoopWorks) {
  for (int round = 0; round < 50; ++round) {
    EXPECT_THROW(for_each_piece(3, 9,
                                [](std::size_t i) {
                                  if (i == 4) {
                                    throw std::runtime_error("no");
                                  }
                                }),
                 std::runtime_error);
    EXPECT_TRUE(each_once(3));
  }
}

TEST(TensogramThreads, AChildOfAForkHasThreadsOfItsOwn) {
  if (thread_sanitizer) {
    GTEST_SKIP() << "ThreadSanitizer allows no thread in a child";
  }
  EXPECT_TRUE(each_once(3));
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::_exit(each_once(3) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace weir::formats
