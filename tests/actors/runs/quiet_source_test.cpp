// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sources that fall silent: checkpoints by time, and stops.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "actors/runs/numbers_pipeline.hpp"
#include "support/temp_folder.hpp"

namespace weir::test {
namespace {

/// A source that has five items and then none for ever.
struct quiet_source {
  using cursor = std::uint64_t;
  out<std::uint64_t, 1> x;
  cursor at = 0;
  static void describe(stage_spec<quiet_source>& s) {
    s.name("test.quiet", "falls silent").port("x", &quiet_source::x, "3");
  }
  result<bool> next(pull& p) {
    if (at == 5) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      p.nothing_yet();
      return true;
    }
    WEIR_TRY(auto v, p.fill(x, width));
    std::fill(v.begin(), v.end(), at++);
    return true;
  }
  [[nodiscard]] cursor position() const { return at; }
  result<void> seek(cursor c) {
    at = c;
    return {};
  }
};

class QuietSource : public testing::TestWithParam<std::uint64_t> {};

// A barrier by number may stand behind the last item of the quiet source.
INSTANTIATE_TEST_SUITE_P(Every, QuietSource, testing::Values(0, 1, 3, 8, 1000));

// Once all items are durable, time alone makes no further checkpoint, and neither does
// the stop.
TEST_P(QuietSource, IsCheckpointedByTimeUntilAllIsDurableAndStopsAtOnce) {
  temp_folder folder;
  durable_items d;
  pipeline p("quiet");
  auto source = p.add<quiet_source>("source");
  auto first = p.add<scaled>("first", {.factor = 3});
  auto sink = p.add<number_sink>("sink", sink_of(d));
  source >> first >> sink;
  actors::run_control control;
  run_options options;
  options.folder = folder.path();
  options.every_seconds = 0.1;
  options.every_items = GetParam();
  options.control = &control;
  std::uint64_t epochs = 0;
  int calls = 0;
  options.progress = [&](const pipeline_progress& progress) {
    if (progress.durable_items != 5) {
      return;
    }
    epochs = calls == 0 ? progress.epochs : epochs;
    if (++calls == 8) {
      control.request_stop();
    }
  };
  const auto start = std::chrono::steady_clock::now();
  const auto report = run(p, options);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->ended, "interrupted");
  EXPECT_EQ(d.items.size(), 5U);
  EXPECT_GE(report->epochs, 1U);
  EXPECT_EQ(report->epochs, epochs);
  EXPECT_EQ(report->generation, epochs);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

// The quiet source has 5 items; the other one has 500 and does not wait for it to read.
TEST_P(QuietSource, ThatMeetsAnotherKeepsNoItemFromACheckpoint) {
  temp_folder folder;
  durable_items d;
  pipeline p("quiet");
  auto quiet = p.add<quiet_source>("quiet");
  auto other = p.add<number_source>("other", {.count = 500, .seed = 5});
  auto first = p.add<scaled>("first", {.factor = 3});
  auto join = p.add<struct joined>("join");
  auto sink = p.add<number_sink>("sink", sink_of(d));
  other >> first >> join["a"];
  quiet >> join["b"];
  join >> sink;
  actors::run_control control;
  run_options options;
  options.folder = folder.path();
  options.every_seconds = 0.1;
  options.every_items = GetParam();
  options.control = &control;
  int calls = 0;
  std::uint64_t durable = 0;
  options.progress = [&](const pipeline_progress& progress) {
    durable = progress.durable_items;
    if (durable == 5 || ++calls == 300) {
      control.request_stop();
    }
  };
  const auto report = run(p, options);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->ended, "interrupted");
  EXPECT_EQ(durable, 5U);
  EXPECT_EQ(d.items.size(), 5U);
}

}  // namespace
}  // namespace weir::test
