// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests every small program: all conflicts are ordered, and no edge joins tasks without
/// a conflict.
#include "oracle/small_programs.hpp"

#include "random_views.hpp"
#include "support/case_count.hpp"

namespace weir::runtime {
namespace {

using namespace weir::test;

/// Returns all tasks with one access, followed by all tasks with two.
std::vector<small_task> tasks_of_two(const std::vector<small_access>& accesses) {
  std::vector<small_task> out;
  for (std::size_t i = 0; i < accesses.size(); ++i) {
    for (std::size_t k = i; k < accesses.size(); ++k) {
      out.push_back({&accesses[i], &accesses[k]});
    }
  }
  return out;
}

/// Prints the number of edges in relation to the smallest possible number.
void print_ratio(const program_judge& judge, std::uint64_t programs) {
  std::printf("%llu programs, %llu edges, %.4f of the fewest that do\n",
              static_cast<unsigned long long>(programs),
              static_cast<unsigned long long>(judge.edges()),
              static_cast<double>(judge.edges()) / static_cast<double>(judge.least()));
}

TEST(SmallPrograms, OfTwoTasksWithTwoAccessesAreOrderedExactly) {
  const auto accesses = small_accesses(false);
  const auto tasks = tasks_of_two(accesses);
  program_judge judge;
  std::uint64_t programs = 0;
  weir::test::case_picker tried;
  for (const small_task& a : tasks) {
    for (const small_task& b : tasks) {
      if (!tried.next()) {
        continue;
      }
      ASSERT_TRUE(judge.judge({a, b})) << "program " << programs;
      ++programs;
    }
  }
  print_ratio(judge, programs);
  EXPECT_EQ(judge.edges(), judge.least());
}

TEST(SmallPrograms, OfFourTasksWithOneDenseAccessAreOrderedExactly) {
  const auto accesses = small_accesses(true);
  program_judge judge;
  std::uint64_t programs = 0;
  weir::test::case_picker tried;
  for (const small_access& a : accesses) {
    for (const small_access& b : accesses) {
      for (const small_access& c : accesses) {
        for (const small_access& d : accesses) {
          if (!tried.next()) {
            continue;
          }
          ASSERT_TRUE(judge.judge({{&a}, {&b}, {&c}, {&d}})) << "program " << programs;
          ++programs;
        }
      }
    }
  }
  print_ratio(judge, programs);
}

/// Tests random programs of up to ten tasks with up to three accesses each.
TEST(SmallPrograms, OfManyTasksAreOrderedExactly) {
  const std::uint64_t seed = 9001;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  dice d(seed);
  const auto accesses = small_accesses(false);
  program_judge judge;
  const std::uint64_t programs = weir::test::case_count("WEIR_TEST_PROGRAMS", 50'000);
  for (std::uint64_t i = 0; i < programs; ++i) {
    std::vector<small_task> tasks(static_cast<std::size_t>(d.in(2, 10)));
    for (small_task& t : tasks) {
      for (std::int64_t k = d.in(0, 3); k > 0; --k) {
        t.push_back(&accesses[static_cast<std::size_t>(
            d.in(0, static_cast<std::int64_t>(accesses.size()) - 1))]);
      }
    }
    ASSERT_TRUE(judge.judge(tasks)) << "program " << i;
  }
  print_ratio(judge, programs);
}

}  // namespace
}  // namespace weir::runtime
