// SPDX-License-Identifier: Apache-2.0
/// @file
/// Stages and files: constants of a volume, and failed items in a Tensogram file.
#include <gtest/gtest.h>

#include "actors/runs/hosts/weighted_stage.hpp"
#include "actors/runs/hosts/weights_volume.hpp"
#include "pipeline/support/number_stages.hpp"
#include "pipeline/support/tape.hpp"
#include "support/temp_folder.hpp"
#include "weir/actors/pipelines.hpp"

namespace weir::test {
namespace {

TEST(PipelineConstantsRun, ComeFromAVolumeThatMustNotChange) {
  const temp_folder folder;
  write_volume(folder / "w.hn4", 5);
  durable_items d;
  run_options options;
  options.folder = folder / "run";
  options.files = folder.path();
  options.every_items = 4;
  const auto build = [&d](pipeline& p, const weighted::settings& with) {
    p.add<number_source>("source", {.count = 20, .seed = 4}) >>
        p.add<weighted>("middle", with) >> p.add<number_sink>("sink", sink_of(d));
  };
  pipeline broken("constants");
  build(broken, {.fails_at = 9});
  ASSERT_FALSE(run(broken, options));
  write_volume(folder / "w.hn4", 6);
  pipeline other("constants");
  build(other, {});
  const auto refused = resume(other, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::history_mismatch);
  const std::string text = refused.error().message();
  for (const char* part : {"\"middle\"", "\"layer.w\"", "w.hn4", "u64[1,3]"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
  write_volume(folder / "w.hn4", 5);
  pipeline same("constants");
  build(same, {});
  const auto report = resume(same, options);
  ASSERT_TRUE(report) << report.error().message();
  ASSERT_EQ(d.items.size(), 20U);
  for (std::uint64_t n = 0; n < 20; ++n) {
    numbers x = number_source::make(4, n);
    for (std::uint64_t i = 0; i < elements; ++i) {
      x[i] *= 5 + i;
    }
    EXPECT_EQ(d.items[n].second, x) << "item " << n;
  }
}

TEST(PipelineConstantsRun, AMissingTensorNamesTheNearest) {
  const temp_folder folder;
  write_volume(folder / "w.hn4", 5);
  durable_items d;
  pipeline p("constants");
  p.add<number_source>("source", {}) >>
      p.add<weighted>("middle", {.tensor = "layer.v"}) >>
      p.add<number_sink>("sink", sink_of(d));
  run_options options;
  options.files = folder.path();
  const auto refused = run(p, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().root().code(), errc::not_found);
  EXPECT_NE(refused.error().message().find("layer.w"), std::string::npos)
      << refused.error().message();
}

TEST(PipelineDeadLettersRun, StandInATensogramFileWithTheirErrors) {
  add_standard_stages();
  const temp_folder folder;
  write_volume(folder / "w.hn4", 5);
  durable_items d;
  pipeline p("letters");
  auto middle = p.add<weighted>("middle", {.fails_at = 7});
  middle.failing(flow::failure_policy::dead_letter, 1);
  p.add<number_source>("source", {.count = 20, .seed = 4}) >> middle >>
      p.add<number_sink>("sink", sink_of(d));
  middle["failed_x"] >> p.add("failed", "tgm.write", {{"path", "failed.tgm"}});
  run_options options;
  options.files = folder.path();
  options.folder = folder / "run";
  options.workers = 2;
  const auto report = run(p, options);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(d.items.size(), 19U);
  EXPECT_LE(report->item_bytes, report->memory_bound);
  const auto tapes = run_tapes(
      [&](pipeline& q, std::vector<tape>& all) {
        q.add("read", "tgm.read", {{"path", folder / "failed.tgm"}}) >>
            add_recorder(q, "sink", all[0]);
      },
      1);
  ASSERT_TRUE(tapes) << tapes.error().message();
  ASSERT_EQ((*tapes)[0].size(), 1U);
  const recorded& one = (*tapes)[0][0];
  const numbers n = number_source::make(4, 7);
  EXPECT_EQ(one.values<std::uint64_t>(), std::vector<std::uint64_t>(n.begin(), n.end()));
  EXPECT_NE(std::get<std::string>(one.about.at("error")).find("planted failure"),
            std::string::npos);
}

}  // namespace
}  // namespace weir::test
