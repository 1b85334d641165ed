// SPDX-License-Identifier: Apache-2.0
/// @file
/// Pipelines run by actors: results that do not depend on workers, checkpoints and stops.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "actors/runs/numbers_pipeline.hpp"
#include "support/case_count.hpp"
#include "support/temp_folder.hpp"

namespace weir::test {
namespace {

TEST(PipelineRun, EqualsItselfWithAnyWorkersAndCheckpoints) {
  const durable_items expected = whole_run();
  ASSERT_GT(expected.items.size(), 100U);
  for (const std::uint64_t every : {1U, 7U, 100U}) {
    temp_folder folder;
    durable_items d;
    pipeline p("numbers");
    build(p, d);
    run_options options;
    options.folder = folder.path() + "/run";
    options.workers = 2;
    options.every_items = every;
    const auto report = run(p, options);
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(report->ended, "finished");
    EXPECT_EQ(report->items, 500U);
    EXPECT_GE(report->epochs, 500 / every);
    EXPECT_EQ(report->generation, report->epochs);
    EXPECT_EQ(d.items, expected.items);
    EXPECT_LE(report->item_bytes, report->memory_bound);
    pipeline again("numbers");
    build(again, d);
    const auto second = resume(again, options);
    ASSERT_TRUE(second) << second.error().message();
    EXPECT_EQ(second->items, 0U);
    EXPECT_EQ(d.items, expected.items);
    pipeline third("numbers");
    build(third, d);
    const auto refused = run(third, options);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), errc::already_exists);
  }
}

// Every round is asked to stop a little later, and twice. A round that is asked before it
// has begun makes no progress.
TEST(PipelineRun, AStoppedRunContinuesToTheSameOutput) {
  const durable_items expected = whole_run();
  for (std::uint64_t stop_behind = 1; stop_behind < 400;
       stop_behind += 57 * case_step()) {
    temp_folder folder;
    durable_items d;
    run_options options;
    options.folder = folder.path();
    options.every_items = stop_behind;
    bool finished = false;
    for (int rounds = 0; !finished && rounds < 1000; ++rounds) {
      actors::run_control control;
      options.control = &control;
      pipeline p("numbers");
      build(p, d);
      std::thread user([&control, rounds] {
        for (int i = 0; i < 2; ++i) {
          std::this_thread::sleep_for(std::chrono::microseconds(100) * rounds);
          control.request_stop();
        }
      });
      const auto report = resume(p, options);
      user.join();
      ASSERT_TRUE(report) << report.error().message();
      finished = report->ended == "finished";
    }
    EXPECT_TRUE(finished);
    EXPECT_EQ(d.items, expected.items);
  }
}

TEST(PipelineRun, StartsAndStopsTwoHundredTimes) {
  for (int i = 0; i < 200; ++i) {
    durable_items d;
    actors::run_control control;
    run_options options;
    options.control = &control;
    options.workers = 1 + static_cast<unsigned>(i % 2);
    options.every_items = static_cast<std::uint64_t>(i % 5);
    if (i % 3 == 0) {
      control.request_stop();
    }
    pipeline p("numbers");
    build(p, d, {}, 20);
    const auto report = run(p, options);
    ASSERT_TRUE(report) << report.error().message();
    ASSERT_EQ(report->ended == "finished", report->items == 20) << i;
  }
}

}  // namespace
}  // namespace weir::test
