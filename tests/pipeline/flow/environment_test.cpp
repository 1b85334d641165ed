// SPDX-License-Identifier: Apache-2.0
/// @file
/// Functions of a stage on the engine and their kernels see the floating point
/// environment of kernels, whatever the thread of the run has, and whether kernels are
/// called at once or submitted.
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "pipeline/support/number_stages.hpp"
#include "pipeline/support/tape.hpp"
#include "weir/base/system/fp_environment.hpp"
#include "weir/pipeline/run_here.hpp"

namespace weir::test {
namespace {

/// Functions that have seen the environment of kernels, and those that have seen another.
struct seen_environments {
  std::atomic<int> of_kernels{0};
  std::atomic<int> others{0};
  std::uint64_t before = 0;  ///< environment of the thread of the run
  void look() { ++(fp_control() == kernel_fp_control ? of_kernels : others); }
};
/// What the run in progress has seen.
seen_environments& seen() {
  static seen_environments all;
  return all;
}

/// Looks at the environment in its functions and in its kernel, which leaves another one.
struct looking {
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  static void describe(stage_spec<looking>& s) {
    s.name("test.looking", "looks at the environment").stateless();
    s.port("x", &looking::x, "3").port("y", &looking::y, "3");
  }
  result<void> on_item(step& s) {
    seen().look();
    const auto from = s[x];
    WEIR_TRY(const auto to, s.make(y, from.extent(0)));
    for (int kernels = 0; kernels < 2; ++kernels) {
      s.submit(
          "look",
          [](auto, auto out) {
            seen().look();
            out[0] = 1;
            set_fp_control(seen().before);  // a mistake that no other kernel may notice
          },
          read(from), update(to));
    }
    seen().look();
    return s.emit();
  }
};

/// Looks at the environment when the tasks of an item have ended.
struct looking_late {
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  static void describe(stage_spec<looking_late>& s) {
    s.name("test.looking_late", "looks at the environment").stateless();
    s.port("x", &looking_late::x, "3").port("y", &looking_late::y, "3");
  }
  result<void> on_item(step& s) {
    seen().look();
    s.forward(x, y);
    return {};
  }
  result<void> on_done(step& s) {
    seen().look();
    return s.emit();
  }
};

/// Looks at the environment in two steps for each item.
struct looking_twice {
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  static void describe(stage_spec<looking_twice>& s) {
    s.name("test.looking_twice", "looks at the environment").stateless();
    s.port("x", &looking_twice::x, "3").port("y", &looking_twice::y, "3");
  }
  result<void> on_item(step&) {
    seen().look();
    return {};
  }
  result<bool> on_step(step& s) {
    seen().look();
    if (s.round() == 1) {
      return true;
    }
    s.forward(x, y);
    WEIR_CHECK(s.emit());
    return false;
  }
};

class PipelineEnvironment : public testing::TestWithParam<unsigned> {};

TEST_P(PipelineEnvironment, IsThatOfKernelsInFunctionsOfStagesAndIsGivenBack) {
  constexpr int items = 100;
  // on_item looks twice and its kernels twice, the others look twice and three times.
  constexpr int looks = items * (4 + 2 + 3);
  seen().of_kernels = 0;
  seen().others = 0;
  std::vector<tape> tapes(1);
  pipeline p("environment");
  p.add<number_source>("source", {.count = items}) >> p.add<looking>("look") >>
      p.add<looking_late>("late") >> p.add<looking_twice>("twice") >>
      add_recorder(p, "sink", tapes[0]);
  const std::uint64_t before = fp_control();
  ASSERT_NE(before, kernel_fp_control);
  seen().before = before;
  flow::here_options options;
  options.workers = GetParam();
  const auto end = flow::run_here(p, options);
  ASSERT_TRUE(end) << end.error().message();
  EXPECT_EQ(fp_control(), before);
  EXPECT_EQ(seen().others, 0);
  EXPECT_EQ(seen().of_kernels, looks);
  EXPECT_EQ(tapes[0].size(), static_cast<std::size_t>(items));
}

INSTANTIATE_TEST_SUITE_P(Workers, PipelineEnvironment, testing::Values(1U, 2U));

}  // namespace
}  // namespace weir::test
