// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checkpoints to which a run goes back, and those that it refuses.
#include <gtest/gtest.h>

#include <algorithm>

#include "actors/runs/numbers_pipeline.hpp"
#include "support/temp_folder.hpp"

namespace weir::test {
namespace {

TEST(PipelineRun, GoesBackPastItemsThatItThenSkips) {
  temp_folder folder;
  durable_items d;
  run_options options = saving(folder, 50);
  options.keep = 8;
  ASSERT_TRUE(run_numbers(d, options));
  options.generation = 4;  // behind item 199
  options.skip = {{200, 210}};
  const auto back = resume_numbers(d, options);
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(back->resumed_item, 200U);
  EXPECT_EQ(back->items, 290U);
  EXPECT_EQ(
      std::count_if(d.items.begin(), d.items.end(),
                    [](const auto& one) { return one.first >= 200 && one.first < 210; }),
      0);
  options.generation = 5;  // the run has gone back behind it, so that it is gone
  const auto refused = resume_numbers(d, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::not_found);
}

TEST(PipelineRun, ASinkThatRefusesAGenerationLeavesTheNewerOnes) {
  temp_folder folder;
  durable_items d;
  run_options options = saving(folder, 50);
  const auto report = run_numbers(d, options);
  ASSERT_TRUE(report) << report.error().message();
  const durable_items whole = d;
  d.items.clear();
  options.generation = report->generation - 1;
  EXPECT_FALSE(resume_numbers(d, options));
  d = whole;
  options.generation = 0;
  const auto newest = resume_numbers(d, options);
  ASSERT_TRUE(newest) << newest.error().message();
  EXPECT_EQ(newest->generation, report->generation);
  EXPECT_TRUE(newest->finished_before);
}

TEST(PipelineRun, ContinuesFromAnOlderGenerationAndRefusesOneThatIsMissing) {
  const durable_items expected = whole_run();
  temp_folder folder;
  durable_items d;
  run_options options = saving(folder, 50);
  const auto report = run_numbers(d, options);
  ASSERT_TRUE(report) << report.error().message();
  options.generation = report->generation - 1;
  const auto older = resume_numbers(d, options);
  ASSERT_TRUE(older) << older.error().message();
  EXPECT_EQ(older->resumed_item, 500U);
  EXPECT_EQ(d.items, expected.items);
  options.generation = 77;
  const auto refused = resume_numbers(d, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::not_found);
}

TEST(PipelineRun, RefusesACheckpointOfAnotherPipelineAndASinkThatWasCut) {
  temp_folder folder;
  durable_items d;
  const run_options options = saving(folder, 100);
  ASSERT_FALSE(run_numbers(d, options, {.fails_at = 450, .throws = true}));
  const auto mismatch = resume_numbers(d, options, {}, 501);
  ASSERT_FALSE(mismatch);
  EXPECT_EQ(mismatch.error().code(), errc::config_mismatch);
  EXPECT_NE(mismatch.error().message().find("count"), std::string::npos)
      << mismatch.error().message();
  d.items.resize(3);
  const auto torn = resume_numbers(d, options);
  ASSERT_FALSE(torn);
  EXPECT_EQ(torn.error().code(), errc::torn);
  EXPECT_NE(torn.error().message().find("\"sink\""), std::string::npos);
}

}  // namespace
}  // namespace weir::test
