// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests which items a stage may read without a task: those that no task writes any more.
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "pipeline/support/number_stages.hpp"
#include "weir/pipeline.hpp"
#include "weir/pipeline/run_here.hpp"

namespace weir::test {
namespace {

/// Doubles by a task; hands the result on before the task has ended, or behind it.
template <bool Late>
struct doubler {
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  static void describe(stage_spec<doubler>& s) {
    s.name("test.doubler", "doubles")
        .port("x", &doubler::x, "3")
        .port("y", &doubler::y, "3");
  }
  result<void> on_item(step& s) {
    WEIR_TRY(const auto to, s.make(y, 3));
    s.submit(
        "double",
        [](auto from, auto result) {
          for (std::int64_t i = 0; i < 3; ++i) {
            result[i] = 2 * from[i];
          }
        },
        read(s[x]), write(to));
    if constexpr (Late) {
      return {};
    } else {
      return s.emit();
    }
  }
  result<void> on_done(step& s) requires Late { return s.emit(); }
};

/// Notes what `complete` says, and the number if it may be read.
struct witness {
  in<std::uint64_t, 1> y;
  static inline std::vector<bool> complete;
  static inline std::map<std::uint64_t, std::uint64_t> seen;  ///< by number
  static void describe(stage_spec<witness>& s) {
    s.name("test.witness", "looks").port("y", &witness::y, "3");
  }
  result<void> on_item(step& s) {
    complete.push_back(s.complete(y));
    if (complete.back()) {
      seen[s.seq()] = s[y].template elements<const std::uint64_t>()[2];
    }
    s.skip();
    return {};
  }
};

template <bool Late>
void run_with_doubler(unsigned workers) {
  witness::complete.clear();
  witness::seen.clear();
  pipeline p("complete");
  p.add<number_source>("numbers", {.count = 20, .seed = 5}) >>
      p.add<doubler<Late>>("doubler") >> p.add<witness>("witness");
  flow::here_options options;
  options.workers = workers;
  const auto r = flow::run_here(p, options);
  ASSERT_TRUE(r) << r.error().message();
  ASSERT_EQ(witness::complete.size(), 20U);
}

void expect_doubled() {
  for (const auto& [number, value] : witness::seen) {
    EXPECT_EQ(value, 2 * number_source::make(5, number)[2]) << number;
  }
}

TEST(CompleteItems, AreThoseOfALateStageWhoseTasksHaveEnded) {
  for (const unsigned workers : {1U, 2U}) {
    run_with_doubler<true>(workers);
    EXPECT_EQ(witness::seen.size(), 20U);
    expect_doubled();
  }
}

TEST(CompleteItems, AreThoseWhoseOnlyWorkerHasRunTheTasksAtOnce) {
  run_with_doubler<false>(1);
  EXPECT_FALSE(witness::seen.empty());
  expect_doubled();
}

TEST(CompleteItems, AreNotThoseThatTasksMayStillWrite) {
  run_with_doubler<false>(2);
  EXPECT_TRUE(witness::seen.empty());
}

}  // namespace
}  // namespace weir::test
