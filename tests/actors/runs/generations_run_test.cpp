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
  run_options options;
  options.folder = folder.path();
  options.every_items = 50;
  options.keep = 8;
  pipeline p("numbers");
  build(p, d);
  ASSERT_TRUE(run(p, options));
  options.generation = 4;  // behind item 199
  options.skip = {{200, 210}};
  pipeline again("numbers");
  build(again, d);
  const auto back = resume(again, options);
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(back->resumed_item, 200U);
  EXPECT_EQ(back->items, 290U);
  EXPECT_EQ(
      std::count_if(d.items.begin(), d.items.end(),
                    [](const auto& one) { return one.first >= 200 && one.first < 210; }),
      0);
  options.generation = 5;  // the run has gone back behind it, so that it is gone
  pipeline third("numbers");
  build(third, d);
  const auto refused = resume(third, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::not_found);
}

TEST(PipelineRun, ASinkThatRefusesAGenerationLeavesTheNewerOnes) {
  temp_folder folder;
  durable_items d;
  run_options options;
  options.folder = folder.path();
  options.every_items = 50;
  pipeline p("numbers");
  build(p, d);
  const auto report = run(p, options);
  ASSERT_TRUE(report) << report.error().message();
  const durable_items whole = d;
  d.items.clear();
  options.generation = report->generation - 1;
  pipeline again("numbers");
  build(again, d);
  EXPECT_FALSE(resume(again, options));
  d = whole;
  options.generation = 0;
  pipeline third("numbers");
  build(third, d);
  const auto newest = resume(third, options);
  ASSERT_TRUE(newest) << newest.error().message();
  EXPECT_EQ(newest->generation, report->generation);
  EXPECT_TRUE(newest->finished_before);
}

TEST(PipelineRun, ContinuesFromAnOlderGenerationAndRefusesOneThatIsMissing) {
  const durable_items expected = whole_run();
  temp_folder folder;
  durable_items d;
  run_options options;
  options.folder = folder.path();
  options.every_items = 50;
  pipeline p("numbers");
  build(p, d);
  const auto report = run(p, options);
  ASSERT_TRUE(report) << report.error().message();
  options.generation = report->generation - 1;
  pipeline again("numbers");
  build(again, d);
  const auto older = resume(again, options);
  ASSERT_TRUE(older) << older.error().message();
  EXPECT_EQ(older->resumed_item, 500U);
  EXPECT_EQ(d.items, expected.items);
  options.generation = 77;
  pipeline third("numbers");
  build(third, d);
  const auto refused = resume(third, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::not_found);
}

TEST(PipelineRun, RefusesACheckpointOfAnotherPipelineAndASinkThatWasCut) {
  temp_folder folder;
  durable_items d;
  run_options options;
  options.folder = folder.path();
  options.every_items = 100;
  {
    pipeline p("numbers");
    build(p, d, {.fails_at = 450, .throws = true});
    ASSERT_FALSE(run(p, options));
  }
  pipeline other("numbers");
  build(other, d, {}, 501);
  const auto mismatch = resume(other, options);
  ASSERT_FALSE(mismatch);
  EXPECT_EQ(mismatch.error().code(), errc::config_mismatch);
  EXPECT_NE(mismatch.error().message().find("count"), std::string::npos)
      << mismatch.error().message();
  d.items.resize(3);
  pipeline cut("numbers");
  build(cut, d);
  const auto torn = resume(cut, options);
  ASSERT_FALSE(torn);
  EXPECT_EQ(torn.error().code(), errc::torn);
  EXPECT_NE(torn.error().message().find("\"sink\""), std::string::npos);
}

}  // namespace
}  // namespace weir::test
