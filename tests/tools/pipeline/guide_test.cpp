// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks the examples of docs/pipelines.md.
#include <gtest/gtest.h>

#include "demo_stages.hpp"
#include "pipeline/file.hpp"

namespace weir::test {
namespace {

/// Returns the blocks of a language in docs/pipelines.md.
std::vector<std::string> blocks(const std::string& language) {
  const std::string page = pipeline_folder::read(WEIR_SOURCE_DIR "/docs/pipelines.md");
  const std::string fence = "\n```" + language + "\n";
  std::vector<std::string> found;
  for (std::size_t begin = 0; (begin = page.find(fence, begin)) != std::string::npos;) {
    begin += fence.size();
    found.push_back(page.substr(begin, page.find("```", begin) - begin));
  }
  return found;
}

TEST(Guide, ShowsTheProgramThatIsBuilt) {
  const std::string program =
      pipeline_folder::read(WEIR_SOURCE_DIR "/tests/tools/pipeline/guide/first.cpp");
  ASSERT_EQ(blocks("cpp").size(), 1U);
  const std::string shown = blocks("cpp").front();
  EXPECT_EQ(shown, program.substr(program.find('\n') + 1));
  EXPECT_LT(std::count(shown.begin(), shown.end(), '\n'), 40);
}

TEST(Guide, HasFilesThatTheCheckAccepts) {
  ASSERT_EQ(blocks("toml").size(), 2U);
  for (const std::string& text : blocks("toml")) {
    EXPECT_EQ(refusal_of(text), "accepted") << text;
  }
}

}  // namespace
}  // namespace weir::test
