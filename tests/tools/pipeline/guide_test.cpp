// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks the examples of docs/pipelines.md and docs/stages.md.
#include <gtest/gtest.h>

#include <set>

#include "demo_stages.hpp"
#include "pipeline/file.hpp"
#include "weir/actors/pipelines.hpp"

namespace weir::test {
namespace {

/// Returns the blocks of a language in a page of docs/.
std::vector<std::string> blocks(const std::string& language,
                                const std::string& name = "pipelines.md") {
  const std::string page = pipeline_folder::read(WEIR_SOURCE_DIR "/docs/" + name);
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
        WEIR_SOURCE_DIR "/tests/tools/pipeline/guide/" + names[i] + ".cpp");
    EXPECT_EQ(shown[i], program.substr(program.find('\n') + 1));
    EXPECT_LT(std::count(shown[i].begin(), shown[i].end(), '\n'), i == 0 ? 14 : 40);
  }
}

TEST(Guide, HasFilesThatTheCheckAccepts) {
  ASSERT_EQ(blocks("toml").size(), 2U);
  for (const std::string& text : blocks("toml")) {
    EXPECT_EQ(refusal_of(text), "accepted") << text;
  }
}

TEST(Guide, HasAnExampleOfEachStageThatTheStageAccepts) {
  add_standard_stages();
  std::set<std::string> shown;
  for (const std::string& text : blocks("toml", "stages.md")) {
    const auto written = tools::read_pipeline(text, "stages.md", "/", {});
    ASSERT_TRUE(written) << text << written.error().message();
    for (const tools::written_stage& stage : written->stages) {
      given_settings settings;
      for (const tools::config_entry& one : stage.settings) {
        settings.emplace(one.key, one.value);
      }
      const auto made = flow::stages().make(stage.use, settings);
      ASSERT_TRUE(made) << text << made.error().message();
      shown.insert(stage.use);
      for (const tools::written_edge& edge : stage.edges) {
        if (!edge.inlet.empty()) {
          EXPECT_GE(made->info.find_port(edge.inlet), 0) << text;
        }
      }
    }
  }
  EXPECT_EQ(shown.size(), 19U);
}

}  // namespace
}  // namespace weir::test
