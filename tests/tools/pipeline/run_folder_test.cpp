// SPDX-License-Identifier: Apache-2.0
/// @file
/// What `weir run` leaves in its folder, and what the commands about it say.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "demo_stages.hpp"
#include "weir/actors/pipelines.hpp"

namespace weir::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// From Tensogram messages to Tensogram messages.
constexpr const char* copying = R"(name = "copying"
[[stage]]
name = "read"
use = "tgm.read"
path = "in.tgm"
[[stage]]
name = "write"
use = "tgm.write"
path = "out.tgm"
)";
/// From numbers to a file, without input.
constexpr const char* counting = R"(name = "counting"
[[stage]]
name = "numbers"
use = "generator"
count = 20
[[stage]]
name = "write"
use = "tgm.write"
path = "out.tgm"
window = "4 items"
)";

outcome run_in(const pipeline_folder& folder, const std::string& out,
               std::vector<std::string> sets = {}) {
  tools::run_options options;
  options.file = folder.file();
  options.out = folder / out;
  options.sets = std::move(sets);
  options.json = true;
  return folder.call<tools::run_options>(&tools::run_command, options);
}

outcome resume_in(const pipeline_folder& folder, const std::string& out) {
  tools::resume_options options;
  options.folder = folder / out;
  options.json = true;
  return folder.call<tools::resume_options>(&tools::resume_command, options);
}

TEST(RunFolder, ATextRunWithoutItsTextIsRefusedBeforeAFolderIsMade) {
  const pipeline_folder folder(
      "[stream]\npath = \"nowhere\"\n[phase]\nbuild.tokens = 9\n");
  const outcome refused = run_in(folder, "run");
  EXPECT_NE(refused.refusal.find("nowhere\": expected a file or folder, found none"),
            std::string::npos)
      << refused.refusal;
  EXPECT_FALSE(fs::exists(folder / "run"));
}

TEST(RunFolder, AMissingInputIsAWarningOfCheckAndRefusedByRun) {
  const pipeline_folder folder(copying);
  tools::graph_options options;
  options.file = folder.file();
  const std::string expected =
      "cannot read \"in.tgm\" in the stage \"read\" (tgm.read): expected a file or a "
      "folder, found none";
  const outcome o = folder.call<tools::graph_options>(&tools::check_command, options);
  EXPECT_EQ(o.code, 0);
  EXPECT_TRUE(o.out.ends_with("warning: " + expected + "\n")) << o.out;
  options.json = true;
  const outcome facts = folder.call<tools::graph_options>(&tools::check_command, options);
  EXPECT_EQ(json::parse(facts.out).at("warnings").size(), 1U);
  const outcome refused = run_in(folder, "run");
  EXPECT_EQ(refused.refusal, expected + "\n  at two.toml:2:1");
  EXPECT_FALSE(fs::exists(folder / "run"));
}

TEST(RunFolder, TwoSinksOfOneFileAreRefusedByCheckAndRun) {
  const pipeline_folder folder(std::string(counting) +
                               "[[stage]]\nname = \"again\"\nuse = \"tgm.write\"\n"
                               "from = \"numbers\"\npath = \"./out.tgm\"\n");
  tools::graph_options options;
  options.file = folder.file();
  const outcome o = folder.call<tools::graph_options>(&tools::check_command, options);
  EXPECT_EQ(
      o.refusal,
      "cannot use the stage \"again\" (tgm.write): expected a file of its own in "
      "the setting \"path\", found \"./out.tgm\", which the stage \"write\" writes; "
      "\"write\" is defined at two.toml:6:1\n  at two.toml:11:1");
  EXPECT_EQ(run_in(folder, "run").refusal, o.refusal);
  EXPECT_FALSE(fs::exists(folder / "run"));
}

TEST(RunFolder, ARunThatCannotOpenItsStagesLeavesWhatWasThere) {
  const pipeline_folder folder(counting);
  fs::create_directory(folder / "empty");
  for (const char* out : {"new", "a/b/c", "empty"}) {
    const outcome o = run_in(folder, out, {"write.path=none/out.tgm"});
    EXPECT_NE(o.refusal.find("cannot open stage \"write\""), std::string::npos)
        << o.refusal;
  }
  EXPECT_FALSE(fs::exists(folder / "new"));
  EXPECT_FALSE(fs::exists(folder / "a"));
  EXPECT_TRUE(fs::is_empty(folder / "empty"));
  EXPECT_EQ(run_in(folder, "empty").refusal, "");
}

TEST(RunFolder, OtherFilesAreNotMixedWithARun) {
  const pipeline_folder folder(counting);
  fs::create_directory(folder / "data");
  std::ofstream(folder / "data/report.html") << "mine";
  EXPECT_EQ(run_in(folder, "data").refusal,
            "cannot begin a run in \"data\": expected a new or an empty folder, found "
            "\"report.html\" in it; choose another --out");
  EXPECT_EQ(pipeline_folder::read(folder / "data/report.html"), "mine");
  EXPECT_FALSE(fs::exists(folder / "data/pipeline.toml"));
  EXPECT_FALSE(fs::exists(folder / "data/lock"));
}

TEST(RunFolder, ANameThatTheFileSystemRefusesIsAnError) {
  const pipeline_folder folder(counting);
  const outcome o = run_in(folder, std::string(300, 'x'));
  EXPECT_TRUE(o.refusal.starts_with("cannot make run folder")) << o.refusal;
}

TEST(RunFolder, AFailedRunSaysWhyInMetricsReportAndLog) {
  const pipeline_folder folder(copying);
  std::ofstream(folder / "in.tgm") << "TENSOGRM and no more";
  const outcome o = run_in(folder, "run");
  EXPECT_NE(o.refusal, "");
  const json metrics = json::parse(pipeline_folder::read(folder / "run/metrics.json"));
  EXPECT_EQ(metrics.at("ended"), "failed");
  EXPECT_EQ(metrics.at("items"), 0);
  EXPECT_EQ(metrics.at("stages")[0].at("items"), 0);
  const std::string message = metrics.at("failure").at("message");
  EXPECT_NE(message.find("cannot process item 0 in stage \"read\""), std::string::npos);
  EXPECT_NE(pipeline_folder::read(folder / "run/report.html").find("The run has failed"),
            std::string::npos);
  EXPECT_NE(pipeline_folder::read(folder / "run/log").find("ended: failed, 0 items"),
            std::string::npos);
}

// A folder stands where the file should be, so that writing fails as on a full disk.
TEST(RunFolder, ResultsThatCannotBeWrittenAreWarningsOfARunThatHasEndedWell) {
  for (const std::string name : {"trace.json", "metrics.json", "report.html"}) {
    const pipeline_folder folder(counting);
    ASSERT_EQ(run_in(folder, "run").refusal, "");
    const std::string output = pipeline_folder::read(folder / "out.tgm");
    for (const auto& one : fs::directory_iterator(folder / "run/checkpoint")) {
      fs::remove(one.path());  // so that the run begins anew in its folder
    }
    fs::remove(folder / ("run/" + name));
    fs::create_directories(folder / ("run/" + name + "/in the way"));
    const outcome o = resume_in(folder, "run");
    EXPECT_EQ(o.refusal, "") << name;
    EXPECT_EQ(o.code, 0) << name;
    EXPECT_EQ(json::parse(o.out).at("ended"), "finished") << name;
    EXPECT_EQ(pipeline_folder::read(folder / "out.tgm"), output) << name;
    EXPECT_NE(pipeline_folder::read(folder / "run/log").find(name), std::string::npos)
        << name;
    fs::remove_all(folder / ("run/" + name));
    EXPECT_EQ(resume_in(folder, "run").code, 0) << name;
  }
}

TEST(RunFolder, AFinishedRunIsComparedWithItsOutput) {
  const pipeline_folder folder(counting);
  ASSERT_EQ(run_in(folder, "run").refusal, "");
  const std::string metrics = pipeline_folder::read(folder / "run/metrics.json");
  EXPECT_EQ(resume_in(folder, "run").code, 0);
  EXPECT_EQ(pipeline_folder::read(folder / "run/metrics.json"), metrics);
  EXPECT_NE(pipeline_folder::read(folder / "run/log")
                .find("had finished before; its outputs are complete"),
            std::string::npos);
  // The process may be killed behind its last checkpoint.
  json running = json::parse(metrics);
  running["ended"] = "running";
  std::ofstream(folder / "run/metrics.json") << running;
  EXPECT_EQ(resume_in(folder, "run").code, 0);
  const json now = json::parse(pipeline_folder::read(folder / "run/metrics.json"));
  EXPECT_EQ(now.at("ended"), "finished");
  EXPECT_EQ(now.at("items"), 20);
  fs::remove(folder / "out.tgm");
  const outcome gone = resume_in(folder, "run");
  EXPECT_NE(gone.refusal.find("expected the whole output of the stage \"write\""),
            std::string::npos)
      << gone.refusal;
}

TEST(RunFolder, CommandsForAnotherThingSayWhichOneFits) {
  const pipeline_folder folder(counting);
  ASSERT_EQ(run_in(folder, "run").refusal, "");
  tools::run_options options;
  options.file = folder / "run";
  EXPECT_EQ(folder.call<tools::run_options>(&tools::run_command, options).refusal,
            "cannot run \"run\": expected a file in TOML, found a folder of a run; "
            "continue it with `weir resume run`");
  EXPECT_EQ(
      resume_in(folder, "two.toml").refusal,
      "cannot resume \"two.toml\": expected a run folder, found a file; begin a run "
      "of it with `weir run two.toml`");
  fs::remove(folder / "run/metrics.json");
  EXPECT_EQ(
      folder.call<tools::report_options>(&tools::report_command, {folder / "run", false})
          .refusal,
      "cannot report on \"run\": expected a run folder with the file metrics.json, found "
      "none; a run of a pipeline writes it soon after it has begun, other runs at the "
      "end; `weir resume run` continues the run");
  const outcome unknown =
      folder.call<tools::stages_options>(&tools::inspect_command, {"zzzzzzzz", false});
  EXPECT_TRUE(unknown.refusal.ends_with("`weir stages` lists them")) << unknown.refusal;
}

TEST(RunFolder, AGraphOfTheRunShowsRatesAndDepths) {
  const pipeline_folder folder(counting);
  ASSERT_EQ(run_in(folder, "run").refusal, "");
  tools::graph_options options;
  options.run = folder / "run";
  const outcome drawn = folder.call<tools::graph_options>(&tools::graph_command, options);
  EXPECT_EQ(drawn.refusal, "");
  EXPECT_NE(drawn.out.find(" items/s<"), std::string::npos);
  EXPECT_NE(drawn.out.find("/4  x<"), std::string::npos) << drawn.out;
  options.dot = true;
  const outcome dot = folder.call<tools::graph_options>(&tools::graph_command, options);
  EXPECT_NE(dot.out.find("items/s\", tooltip="), std::string::npos) << dot.out;
  options.file = folder.file();
  EXPECT_EQ(folder.call<tools::graph_options>(&tools::graph_command, options).refusal,
            "cannot draw: expected a file or a run folder, found both; weir graph FILE, "
            "or weir graph --run DIR");
}

}  // namespace
}  // namespace weir::test
