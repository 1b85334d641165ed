// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the remaining small programs, which are too many for every run of the tests.
#include "oracle/small_programs.hpp"
#include "random_views.hpp"

namespace weir::runtime {
namespace {

using namespace weir::test;

TEST(SmallProgramsSoak, OfFourTasksWithOneAccessAreOrderedExactly) {
  const auto accesses = small_accesses(false);
  program_judge judge;
  for (const small_access& a : accesses) {
    for (const small_access& b : accesses) {
      for (const small_access& c : accesses) {
        for (const small_access& d : accesses) {
          ASSERT_TRUE(judge.judge({{&a}, {&b}, {&c}, {&d}}));
        }
      }
    }
  }
}

TEST(SmallProgramsSoak, OfThreeTasksWithTwoAccessesAreOrderedExactly) {
  const auto accesses = small_accesses(true);
  std::vector<small_task> tasks;
  for (std::size_t i = 0; i < accesses.size(); ++i) {
    for (std::size_t k = i; k < accesses.size(); ++k) {
      tasks.push_back({&accesses[i], &accesses[k]});
    }
  }
  program_judge judge;
  for (const small_task& a : tasks) {
    for (const small_task& b : tasks) {
      for (const small_task& c : tasks) {
        ASSERT_TRUE(judge.judge({a, b, c}));
      }
    }
  }
}

TEST(SmallProgramsSoak, OfFourTasksWithTwoAccessesAreOrderedInTenMillionSamples) {
  const std::uint64_t seed = 20260130;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  dice d(seed);
  const auto accesses = small_accesses(false);
  const auto any = [&] {
    return &accesses[static_cast<std::size_t>(
        d.in(0, static_cast<std::int64_t>(accesses.size()) - 1))];
  };
  program_judge judge;
  for (int i = 0; i < 10'000'000; ++i) {
    ASSERT_TRUE(
        judge.judge({{any(), any()}, {any(), any()}, {any(), any()}, {any(), any()}}))
        << "program " << i;
  }
}

}  // namespace
}  // namespace weir::runtime
