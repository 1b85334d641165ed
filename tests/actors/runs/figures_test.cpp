// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests what stages tell about themselves: in the progress and in the report of a run.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "pipeline/support/number_stages.hpp"
#include "weir/actors/pipelines.hpp"

namespace weir::test {
namespace {

/// Counts its items and has a problem from the fifth item on.
struct telling {
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  std::uint64_t count = 0;
  static void describe(stage_spec<telling>& s) {
    s.name("test.telling", "tells what it does");
    s.port("x", &telling::x, "3").port("y", &telling::y, "3");
  }
  result<void> on_item(step& s) {
    ++count;
    WEIR_TRY(const auto to, s.make(y, 3));
    s.submit(
        "copy",
        [](auto from, auto result) {
          for (std::int64_t i = 0; i < 3; ++i) {
            result[i] = from[i];
          }
        },
        read(s[x]), write(to));
    return s.emit();
  }
  void report(figures& to) const {
    to.set("seen", count);
    to.set("half", static_cast<double>(count) / 2);
    to.set("name", std::string("telling"));
    to.draw({"items", "number", "value", {{0, 1}, {1, 2}}});
    if (count >= 5) {
      to.problem("a planted problem");
    }
  }
};

TEST(Figures, AreInTheFirstAndLastProgressAndInTheReport) {
  durable_items d;
  pipeline p("telling");
  p.add<number_source>("source", {.count = 50, .seed = 5}) >> p.add<telling>("middle") >>
      p.add<number_sink>("sink", sink_of(d));
  std::vector<std::uint64_t> seen;
  std::vector<std::string> warnings;
  run_options options;
  options.progress = [&](const pipeline_progress& now) {
    ASSERT_EQ(now.stages.size(), 3U);
    const auto* count = now.stages[1].find<std::uint64_t>("seen");
    ASSERT_NE(count, nullptr);
    seen.push_back(*count);
  };
  options.warning = [&](const std::string& text) { warnings.push_back(text); };
  const auto report = run(p, options);
  ASSERT_TRUE(report) << report.error().message();
  ASSERT_GE(seen.size(), 2U);
  EXPECT_EQ(seen.front(), 0U);
  EXPECT_EQ(seen.back(), 50U);
  ASSERT_EQ(report->stages.size(), 3U);
  const figures& found = report->stages[1];
  ASSERT_NE(found.find<double>("half"), nullptr);
  EXPECT_EQ(*found.find<double>("half"), 25);
  EXPECT_EQ(found.find<double>("seen"), nullptr);  // it is a whole number
  EXPECT_EQ(found.curves().size(), 1U);
  EXPECT_TRUE(report->stages[0].empty());
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings.front(), "stage \"middle\": a planted problem");
}

/// A sink that needs two milliseconds for each item.
struct slow_sink {
  struct offset {
    std::uint64_t items;
  };
  in<std::uint64_t, 1> y;
  std::uint64_t count = 0;
  static void describe(stage_spec<slow_sink>& s) {
    s.name("test.slow_sink", "takes its time").port("y", &slow_sink::y, "3");
  }
  result<void> put(taken&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ++count;
    return {};
  }
  result<offset> settle() { return offset{count}; }
  result<void> rewind(offset o) {
    count = o.items;
    return {};
  }
};

TEST(StageCounters, HaveTheTimeInsideKernelsAndInsideASink) {
  pipeline p("busy");
  p.add<number_source>("source", {.count = 20, .seed = 5}) >>
      p.map("middle", "u64[3]", "u64[3]",
            [](view<const std::uint64_t, 1> from, view<std::uint64_t, 1> to) {
              std::this_thread::sleep_for(std::chrono::milliseconds(1));
              for (std::int64_t i = 0; i < 3; ++i) {
                to[i] = from[i];
              }
            }) >>
      p.add<slow_sink>("sink");
  const auto report = run(p, {});
  ASSERT_TRUE(report) << report.error().message();
  const auto& stages = report->counters.stages;
  EXPECT_GE(stages[1].busy_ns, 20'000'000);
  EXPECT_GE(stages[2].busy_ns, 40'000'000);
  EXPECT_GT(stages[0].busy_ns, 0);
  EXPECT_LT(stages[0].busy_ns, stages[2].busy_ns);
}

}  // namespace
}  // namespace weir::test
