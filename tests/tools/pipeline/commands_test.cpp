// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the commands about pipelines: check, graph, stages, inspect, and run.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include "cli/commands.hpp"
#include "demo_stages.hpp"

namespace weir::test {
namespace {

using nlohmann::json;
using tools::graph_options;
using tools::stages_options;

constexpr const char* three = R"(name = "three"
[[stage]]
name = "read"
use = "test.numbers"
count = 20
[[stage]]
name = "twice"
use = "test.scaled"
window = "2 items"
[[stage]]
name = "four"
use = "test.batched"
window = "2 items"
[[stage]]
name = "write"
use = "demo.lines"
path = "out.txt"
)";

graph_options options_for(const pipeline_folder& folder, bool as_json) {
  graph_options options;
  options.file = folder.file();
  options.json = as_json;
  return options;
}

TEST(CheckCommand, PrintsTypesWindowsMemoryAndGuarantee) {
  const pipeline_folder folder(three);
  const outcome o =
      folder.call<graph_options>(&tools::check_command, options_for(folder, false));
  EXPECT_EQ(o.refusal, "");
  EXPECT_EQ(o.out,
            "pipeline \"three\": 4 stages, 3 edges\n"
            "\n"
            "  stage  uses          face    numbering  slots  memory\n"
            "  read   test.numbers  source  0          3      192 B\n"
            "  twice  test.scaled   task    0          5      320 B\n"
            "  four   test.batched  task    1          9      576 B\n"
            "  write  demo.lines    sink    1          1      -\n"
            "\n"
            "  edge                  type    window\n"
            "  read.x   ->  twice.x  u64[3]  2 items, 64.0 MiB\n"
            "  twice.y  ->  four.x   u64[3]  4 items, 64.0 MiB\n"
            "  four.y   ->  write.x  u64[3]  8 items, 64.0 MiB\n"
            "\n"
            "memory of items: at most 1280 bytes (1.2 KiB)\n"
            "guarantee: exactly once\n"
            "note: edge \"twice.y\" -> \"four.x\": window of 2 items enlarged to 4, "
            "because \"four\" takes 4 items at a time\n"
            "checkpoints: at the end alone\n"
            "workers: 1\n");
}

TEST(CheckCommand, PrintsTheSameAsJson) {
  const pipeline_folder folder(three);
  const outcome o =
      folder.call<graph_options>(&tools::check_command, options_for(folder, true));
  const json all = json::parse(o.out);
  EXPECT_EQ(all.at("pipeline"), "three");
  EXPECT_EQ(all.at("guarantee"), "exactly once");
  EXPECT_EQ(all.at("stages").size(), 4U);
  EXPECT_EQ(all.at("stages")[2].at("use"), "test.batched");
  EXPECT_EQ(all.at("stages")[2].at("place"), "two.toml:10:1");
  EXPECT_EQ(all.at("edges")[1].at("from"), "twice.y");
  EXPECT_EQ(all.at("edges")[1].at("type"), "u64[3]");
  EXPECT_EQ(all.at("edges")[1].at("window_items"), 4);
  EXPECT_EQ(all.at("notes").size(), 1U);
  EXPECT_GT(all.at("memory_bound_bytes").get<int>(), 0);
}

TEST(GraphCommand, WritesADrawing) {
  const pipeline_folder folder(three);
  graph_options options = options_for(folder, false);
  const outcome printed = folder.call<graph_options>(&tools::graph_command, options);
  EXPECT_TRUE(printed.out.starts_with("<svg xmlns="));
  options.drawing = folder / "g.svg";
  const outcome o = folder.call<graph_options>(&tools::graph_command, options);
  EXPECT_EQ(o.out, "g.svg\n");
  EXPECT_EQ(pipeline_folder::read(options.drawing), printed.out);
}

TEST(InspectCommand, PrintsPortsSettingsAndState) {
  const pipeline_folder folder("");
  const outcome lines =
      folder.call<stages_options>(&tools::inspect_command, {"demo.brighter", false});
  EXPECT_EQ(lines.out,
            "demo.brighter (task)\n"
            "  adds a number to each element\n"
            "\n"
            "ports\n"
            "  inlet  image: f32[h,w]\n"
            "  outlet bright: f32[h,w]\n"
            "\n"
            "settings\n"
            "  by\n"
            "      number that is added\n"
            "      takes a number from -10 to 10\n"
            "      default: 1.0\n"
            "  mode\n"
            "      elements that change\n"
            "      takes a string\n"
            "      default: \"all\"; may change at a resume\n"
            "\n"
            "behaviour\n"
            "  has no state, so failed items may be skipped (on_error = \"skip\" or "
            "\"dead_letter\")\n");
  const outcome sum =
      folder.call<stages_options>(&tools::inspect_command, {"test.running_sum", true});
  EXPECT_EQ(json::parse(sum.out).at("state"),
            json::parse(R"([{"name": "sum", "kind": "tensor"},
                            {"name": "calls", "kind": "value"}])"));
  const outcome unknown =
      folder.call<stages_options>(&tools::inspect_command, {"demo.brigther", false});
  EXPECT_NE(unknown.refusal.find("did you mean \"demo.brighter\"?"), std::string::npos);
}

TEST(StagesCommand, ListsStagesWithTheirSentences) {
  const pipeline_folder folder("");
  const outcome o = folder.call<stages_options>(&tools::stages_command, {});
  EXPECT_NE(o.out.find("demo.lines"), std::string::npos);
  EXPECT_TRUE(std::regex_search(o.out, std::regex("source +numbers that depend on a "
                                                  "seed\n")))
      << o.out;
}

tools::run_options run_options_for(const pipeline_folder& folder) {
  tools::run_options options;
  options.file = folder.file();
  options.out = folder / "run";
  options.json = true;
  return options;
}

TEST(RunCommand, LeavesAFolderThatDescribesTheRun) {
  const pipeline_folder folder(three);
  tools::run_options options = run_options_for(folder);
  options.sets = {"twice.factor=5"};
  const outcome o = folder.call<tools::run_options>(&tools::run_command, options);
  ASSERT_EQ(o.refusal, "");
  EXPECT_EQ(o.code, 0);
  const json metrics = json::parse(o.out);
  EXPECT_EQ(metrics.at("ended"), "finished");
  EXPECT_EQ(metrics.at("items"), 20);
  EXPECT_EQ(metrics.at("stages")[2].at("emitted"), 5);
  EXPECT_EQ(metrics.at("edges")[0].at("items"), 20);
  EXPECT_EQ(json::parse(pipeline_folder::read(folder / "run/metrics.json")).at("items"),
            20);
  EXPECT_NE(
      pipeline_folder::read(folder / "run/pipeline.toml").find("\"twice.factor\" = 5"),
      std::string::npos);
  EXPECT_NE(pipeline_folder::read(folder / "run/log").find("ended: finished, 20 items"),
            std::string::npos);
  const std::string page = pipeline_folder::read(folder / "run/report.html");
  EXPECT_NE(page.find("Pipeline three"), std::string::npos);
  for (const char* part : {"class=\"pl-edge\"", "busy for s", "most alive",
                           "bytes of items, of at most", "checkpoints", "the rate",
                           "until a checkpoint held them", "<td>twice</td>", "log"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }

  // Five lines beside the file, since relative paths begin at its folder.
  const std::string lines = pipeline_folder::read(folder / "out.txt");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 5);

  const outcome again = folder.call<tools::run_options>(&tools::run_command, options);
  EXPECT_EQ(again.refusal,
            "cannot begin a run in \"run\": expected a folder without a run, found one; "
            "continue it with `weir resume run`, or choose another --out");
}

TEST(RunCommand, ARefusedPipelineLeavesNoFolder) {
  for (const char* line : {"twice.factor=-1", "four.from=nowhere", "run.workers=0"}) {
    const pipeline_folder folder(three);
    tools::run_options options = run_options_for(folder);
    options.sets = {line};
    const outcome o = folder.call<tools::run_options>(&tools::run_command, options);
    EXPECT_NE(o.refusal, "") << line;
    EXPECT_FALSE(std::filesystem::exists(folder / "run")) << line;
  }
}

TEST(ReportCommand, WritesTheReportOfAPipelineAgain) {
  const pipeline_folder folder(three);
  const tools::run_options options = run_options_for(folder);
  ASSERT_EQ(folder.call<tools::run_options>(&tools::run_command, options).code, 0);
  const std::string before = pipeline_folder::read(folder / "run/report.html");
  std::filesystem::remove(folder / "run/report.html");
  const outcome o =
      folder.call<tools::report_options>(&tools::report_command, {folder / "run", false});
  EXPECT_EQ(o.out, "run/report.html\n");
  EXPECT_EQ(pipeline_folder::read(folder / "run/report.html"), before);
}

}  // namespace
}  // namespace weir::test
