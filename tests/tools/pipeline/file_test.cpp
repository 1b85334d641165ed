// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests files of pipelines that are accepted: edges, windows, options and assignments.
#include "pipeline/file.hpp"

#include <gtest/gtest.h>

#include "demo_stages.hpp"

namespace weir::test {
namespace {

using tools::read_pipeline;

constexpr const char* two = R"(# a loop and a join
[run]
workers = 3
stall = "2 min"
seed = 9
[checkpoint]
every = "1000 items, 30 s"

[[stage]]
name = "read"
use = "test.numbers"
count = 20

[[stage]]
name = "head"
use = "test.loop_head"
window = "5 items, 2 MiB"
loop = { token = "tail.y", delay = 2 }

[[stage]]
name = "tail"
use = "test.scaled"
factor = 7
on_error = "skip"

[[stage]]
name = "join"
use = "test.joined"
inlets = { b = "read", a = "tail" }

[[stage]]
name = "write"
use = "demo.lines"
path = "out.txt"
)";

tools::written_pipeline written(const std::string& text,
                                const std::vector<std::string>& sets = {}) {
  add_demo_stages();
  return or_throw(read_pipeline(text, "two.toml", "/data", sets));
}

flow::graph graph_of(const tools::written_pipeline& from) {
  const auto made = or_throw(tools::make_pipeline(from, flow::stages()));
  return or_throw(made->check()).source;
}

std::string ends_of(const flow::graph& g) {
  std::string out;
  for (const flow::graph_edge& e : g.edges) {
    out += g.stages[e.from].name + "." + g.stages[e.from].info.ports[e.outlet].name +
           ">" + g.stages[e.to].name + "." + g.stages[e.to].info.ports[e.inlet].name +
           (e.delay > 0 ? "/" + std::to_string(e.delay) : "") + " ";
  }
  return out;
}

TEST(PipelineFile, ConnectsStagesAsItSays) {
  const flow::graph g = graph_of(written(two));
  EXPECT_EQ(g.name, "two");
  EXPECT_EQ(ends_of(g),
            "tail.y>head.token/2 read.x>head.x head.y>tail.x read.x>join.b tail.y>join.a "
            "join.y>write.x ");
}

TEST(PipelineFile, SetsWindowsPoliciesAndPlaces) {
  const flow::graph g = graph_of(written(two));
  EXPECT_EQ(g.edges[1].window_items, 5U);
  EXPECT_EQ(g.edges[1].window_bytes, 2 << 20);
  EXPECT_EQ(g.edges[2].window_items, flow::default_window_items);
  EXPECT_EQ(g.stages[2].on_failure, flow::failure_policy::skip);
  EXPECT_EQ(g.stages[3].on_failure, flow::failure_policy::stop);
  EXPECT_EQ(g.stages[1].place, "two.toml:14:1");
  EXPECT_EQ(g.edges[0].place, "two.toml:18:18");
  EXPECT_EQ(g.edges[1].place, "two.toml:14:1");
  EXPECT_EQ(g.edges[4].place, "two.toml:29:28");
}

TEST(PipelineFile, FailedItemsGoToFilesUnlessTheFileSaysWhereTo) {
  const std::string source =
      "[[stage]]\nname = \"read\"\nuse = \"test.numbers\"\n"
      "[[stage]]\nname = \"middle\"\nuse = \"test.scaled\"\non_error = "
      "\"dead_letter\"\nmax_failures = 4\n"
      "[[stage]]\nname = \"write\"\nuse = \"demo.lines\"\npath = \"out.txt\"\n";
  add_standard_stages();
  const flow::graph automatic = graph_of(written(source));
  EXPECT_EQ(ends_of(automatic),
            "read.x>middle.x middle.y>write.x middle.failed_x>middle.failed_x.x ");
  EXPECT_EQ(automatic.stages[1].on_failure, flow::failure_policy::dead_letter);
  EXPECT_EQ(automatic.stages[1].max_failures, 4U);
  EXPECT_EQ(automatic.stages[3].info.name, "tgm.write");
  const flow::graph chosen = graph_of(
      written(source + "[[stage]]\nname = \"failed\"\nuse = \"demo.lines\"\npath = "
                       "\"failed.txt\"\nfrom = \"middle.failed_x\"\n"));
  EXPECT_EQ(ends_of(chosen),
            "read.x>middle.x middle.y>write.x middle.failed_x>failed.x ");
}

TEST(PipelineFile, GivesTheOptionsOfTheRun) {
  const pipeline_folder folder(two);
  const auto loaded = or_throw(tools::load_pipeline(folder.file(), {}));
  EXPECT_EQ(loaded.options.workers, 3U);
  EXPECT_EQ(loaded.options.seed, 9U);
  EXPECT_EQ(loaded.options.stall_s, 120);
  EXPECT_EQ(loaded.options.every_items, 1000U);
  EXPECT_EQ(loaded.options.every_seconds, 30);
  EXPECT_EQ(loaded.options.files + "/two.toml", folder.file());
}

TEST(PipelineFile, TheOldKeyOfTwoStagesIsThatOfTheRun) {
  const std::string text =
      "[[stage]]\nname = \"a\"\nuse = \"demo.numbers\"\n[[stage]]\nname = \"b\"\nuse = "
      "\"bert.layers\"\nkernels = \"x86-64\"\n";
  const auto old = written(text);
  EXPECT_EQ(old.settings.kernels.instruction_set, "x86-64");
  EXPECT_TRUE(old.stages[1].settings.empty());
  EXPECT_EQ(written(text, {"b.kernels=auto"}).settings.kernels.instruction_set, "auto");
}

TEST(PipelineFile, AssignmentsOverrideItAndStandInItsCopy) {
  const auto first = written(two, {"run.workers=2", "tail.factor=5", "tail.factor=6",
                                   "write.window=9 items", "name=other"});
  EXPECT_EQ(first.settings.workers, 2U);
  EXPECT_EQ(first.settings.name, "other");
  EXPECT_EQ(first.stages[2].settings.at(0).value, setting_value{std::int64_t{6}});
  EXPECT_EQ(first.stages[4].window.items, 9U);
  EXPECT_TRUE(first.copy.starts_with(two));

  // The copy gives the same pipeline in another folder, and its places stay.
  const auto again = or_throw(read_pipeline(first.copy, "two.toml", "/elsewhere", {}));
  EXPECT_EQ(again.settings.files, "/data");
  EXPECT_EQ(again.settings.workers, 2U);
  EXPECT_EQ(again.settings.name, "other");
  EXPECT_EQ(again.stages[2].settings.at(0).value, setting_value{std::int64_t{6}});
  EXPECT_EQ(again.stages[4].window.items, 9U);
  EXPECT_EQ(again.copy, first.copy);
  EXPECT_EQ(graph_of(again).edges[4].place, "two.toml:29:28");

  const std::vector<std::string> more{"tail.factor=8"};
  const auto third = or_throw(read_pipeline(first.copy, "two.toml", "/elsewhere", more));
  EXPECT_EQ(third.stages[2].settings.at(0).value, setting_value{std::int64_t{8}});
  EXPECT_EQ(or_throw(read_pipeline(third.copy, "a.toml", "/", {})).copy, third.copy);
}

TEST(PipelineFile, AStageMayHaveDotsInItsName) {
  const auto g = graph_of(written(R"([[stage]]
name = "a.b"
use = "test.numbers"
[[stage]]
name = "a"
use = "test.scaled"
from = "a.b.x"
[[stage]]
name = "c"
use = "test.scaled"
from = "a.b"
[[stage]]
name = "d"
use = "test.scaled"
from = "a.y"
)"));
  EXPECT_EQ(ends_of(g), "a.b.x>a.x a.b.x>c.x a.y>d.x ");
}

TEST(PipelineFile, IsKnownByItsTables) {
  EXPECT_TRUE(tools::describes_stages(two));
  EXPECT_TRUE(tools::describes_stages("  [[ stage ]]"));
  EXPECT_TRUE(tools::describes_stages("\n\n[[stage]]\nbroken"));
  EXPECT_FALSE(tools::describes_stages(""));
  EXPECT_FALSE(tools::describes_stages("[stage]\n[[stages]]\n# [[stage]]\n[["));
  EXPECT_FALSE(tools::describes_stages("name = \"[[stage]]\"\n"));
}

TEST(PipelineFile, RefusesTablesBehindItsAssignments) {
  add_demo_stages();
  const auto refused = read_pipeline(
      "[set]\n\"run.workers\" = 2\n[[stage]]\nname = \"a\"\n"
      "use = \"test.numbers\"\n",
      "a.toml", "/", {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(),
            "cannot use the table [set]: expected it behind all other tables, found a "
            "table behind it\n  at a.toml:1");
}

TEST(Catalog, RefusesSettingsWithReservedNames) {
  flow::catalog all;
  for (const std::string_view key : flow::reserved_keys()) {
    flow::stage_info about;
    about.name = "demo.any";
    about.settings.push_back({std::string(key), "", "", text_range{}, {}, ""});
    const auto added = all.add("demo.any", &make_held, about);
    ASSERT_FALSE(added) << key;
    EXPECT_EQ(added.error().message(),
              "cannot add the stage \"demo.any\": expected settings with names that are "
              "not reserved, found the setting \"" +
                  std::string(key) + "\"");
  }
  EXPECT_TRUE(all.names().empty());
}

TEST(Catalog, DescribesStagesThatCannotBeMadeWithoutSettings) {
  add_demo_stages();
  const auto lines = or_throw(flow::stages().describe("demo.lines"));
  EXPECT_EQ(lines.face, flow::face::sink);
  ASSERT_EQ(lines.settings.size(), 1U);
  EXPECT_TRUE(lines.settings[0].required);
  const auto held = or_throw(flow::stages().describe("demo.held"));
  EXPECT_EQ(held.holds, 2U);
}

}  // namespace
}  // namespace weir::test
