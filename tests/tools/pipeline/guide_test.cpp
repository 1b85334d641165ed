// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks the examples of docs/pipelines.md, and that docs/stages.md is made of the
/// descriptions of stages, whose examples run.
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "actors/stages/stage_inputs.hpp"
#include "cli/commands.hpp"
#include "demo_stages.hpp"
#include "pipeline/file.hpp"
#include "pipeline/stage_page.hpp"
#include "support/folders.hpp"
#include "weir/actors/pipelines.hpp"

namespace weir::test {
namespace {

/// Returns the blocks of a language in a page of docs/.
std::vector<std::string> blocks(const std::string& language) {
  const std::string page = pipeline_folder::read(source_folder() + "/docs/pipelines.md");
  const std::string fence = "\n```" + language + "\n";
  std::vector<std::string> found;
  for (std::size_t begin = 0; (begin = page.find(fence, begin)) != std::string::npos;) {
    begin += fence.size();
    found.push_back(page.substr(begin, page.find("```", begin) - begin));
  }
  return found;
}

TEST(Guide, ShowsTheProgramsAndThePlugInThatAreBuilt) {
  const std::vector<std::string> names{"ten", "first", "twice"};
  const std::vector<std::string> shown = blocks("cpp");
  ASSERT_EQ(shown.size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string program = pipeline_folder::read(
        source_folder() + "/tests/tools/pipeline/guide/" + names[i] + ".cpp");
    EXPECT_EQ(shown[i], program.substr(program.find('\n') + 1));
    EXPECT_LT(std::count(shown[i].begin(), shown[i].end(), '\n'), i == 0 ? 14 : 40);
  }
}

TEST(Guide, HasFilesThatTheCheckAccepts) {
  ASSERT_EQ(blocks("toml").size(), 3U);
  for (const std::string& text : blocks("toml")) {
    EXPECT_EQ(refusal_of(text), "accepted") << text;
  }
}

/// Returns the descriptions of the stages that come with Weir.
std::vector<flow::stage_info> standard_stages() {
  add_standard_stages();
  std::vector<flow::stage_info> all;
  for (const std::string& name : flow::stages().names()) {
    if (!name.starts_with("test.") && !name.starts_with("demo.")) {
      all.push_back(or_throw(flow::stages().describe(name)));
    }
  }
  return all;
}

TEST(Reference, OfStagesIsMadeOfTheirDescriptions) {
  const std::string page = pipeline_folder::read(source_folder() + "/docs/stages.md");
  const auto made = tools::stages_page(standard_stages());
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_TRUE(page == *made) << "make it again: weir stages --markdown > docs/stages.md";
}

/// Returns the section of a stage on the page of all stages.
std::string section_of(const std::string& stage, const std::string& page) {
  const std::size_t begin = page.find("\n## " + stage + "\n");
  const std::size_t end = page.find("\n```\n", begin);
  return begin == std::string::npos ? std::string() : page.substr(begin, end - begin);
}

TEST(Reference, SaysOfEveryStageWhetherItHasState) {
  const std::string page = or_throw(tools::stages_page(standard_stages()));
  const auto says = [&](const std::string& stage, const std::string& text) {
    return section_of(stage, page).find(text) != std::string::npos;
  };
  for (const flow::stage_info& info : standard_stages()) {
    EXPECT_NE(says(info.name, "\n\nState in checkpoints: "),
              says(info.name, "\n\nThe stage has no state, "))
        << info.name << section_of(info.name, page);
  }
  for (const char* stage : {"batch", "reduce"}) {
    EXPECT_TRUE(
        says(stage, "State in checkpoints: the items of a group that is not complete."))
        << section_of(stage, page);
  }
  EXPECT_TRUE(says("rate", "The stage has no state, so failed items may be skipped."));
  EXPECT_TRUE(says("unbatch", "The stage has no state, but failed items stop the run."));
  EXPECT_TRUE(says("window", "State in checkpoints: `taken` (value), `items` (tensor)."));
  EXPECT_TRUE(says("generator", "State in checkpoints: the cursor."));
  EXPECT_TRUE(says("null", "State in checkpoints: the offset."));
}

/// Sends messages through a pipe once somebody reads it.
std::thread feed_pipe(const std::string& path, const std::string& from) {
  return std::thread([path, content = pipeline_folder::read(from)] {
    std::ofstream(path, std::ios::binary) << content;
  });
}

TEST(Reference, HasAnExampleOfEachStageThatRuns) {
  const pipeline_folder folder("");
  make_stage_inputs(folder / "");
  for (const flow::stage_info& info : standard_stages()) {
    ASSERT_NE(info.example, "") << info.name;
    EXPECT_FALSE(or_throw(tools::as_in_example(info)).ports.empty()) << info.name;
    std::ofstream(folder / info.name + ".toml") << info.example;
    std::thread writer;
    if (info.example.find("sensor.fifo") != std::string::npos) {
      writer = feed_pipe(folder / "sensor.fifo", folder / "in.tgm");
    }
    tools::run_options options;
    options.file = folder / info.name + ".toml";
    options.out = folder / "run-" + info.name;
    options.json = true;
    const outcome o = folder.call<tools::run_options>(&tools::run_command, options);
    if (writer.joinable()) {
      writer.join();
    }
    EXPECT_EQ(o.code, 0) << info.name << "\n" << info.example << o.refusal;
  }
}

}  // namespace
}  // namespace weir::test
