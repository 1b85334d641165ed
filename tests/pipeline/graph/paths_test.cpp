// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the checks of the files that stages read and write.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "graph_builder.hpp"
#include "support/temp_folder.hpp"
#include "weir/base/settings.hpp"
#include "weir/pipeline/paths.hpp"

namespace weir::test {
namespace {

namespace fs = std::filesystem;
using flow::check_outputs;

/// Returns a graph with two sinks that write to these paths.
graph_builder writing(const std::string& first, const std::string& second) {
  graph_builder b;
  b.sink("a", "x:u8[?]").info.paths = {{"path", first, path_use::output}};
  b.g.stages.back().place = "two.toml:4";
  b.sink("b", "x:u8[?]").info.paths = {{"to", second, path_use::output}};
  b.g.stages.back().place = "two.toml:8";
  return b;
}

TEST(PipelinePaths, TwoStagesMustNotWriteOneFile) {
  const temp_folder folder;
  const auto refused = check_outputs(writing("out.tgm", "out.tgm").g, folder.path());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::invalid_argument);
  EXPECT_EQ(refused.error().message(),
            "cannot use the stage \"b\" (demo.b): expected a file of its own in the "
            "setting \"to\", found \"out.tgm\", which the stage \"a\" writes; \"a\" is "
            "defined at two.toml:4\n  at two.toml:8");
  EXPECT_TRUE(check_outputs(writing("a.tgm", "b.tgm").g, folder.path()));
}

TEST(PipelinePaths, TwoStagesMustNotHavePatternsOfOneFile) {
  const temp_folder folder;
  fs::create_directories(folder / "out");
  fs::create_directory_symlink(folder / "out", folder / "link");
  const auto checked = [&](const std::string& first, const std::string& second) {
    const auto one = check_outputs(writing(first, second).g, folder.path());
    const auto two = check_outputs(writing(second, first).g, folder.path());
    EXPECT_EQ(one.has_value(), two.has_value()) << first << " " << second;
    return one;
  };
  const auto refused = checked("out/{item:3}.raw", "out/{item}.raw");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::invalid_argument);
  EXPECT_EQ(
      refused.error().message(),
      "cannot use the stage \"b\" (demo.b): expected files of its own in the setting "
      "\"to\", found \"out/{item}.raw\", which can name a file of "
      "\"out/{item:3}.raw\" of the stage \"a\"; \"a\" is defined at two.toml:4\n  at "
      "two.toml:8");
  for (const auto& [first, second] : std::vector<std::pair<std::string, std::string>>{
           {"out/{item}.raw", "out/{item}.raw"},
           {"out/{item}.raw", "out/12.raw"},
           {"out/{item}.raw", "link/{item}.raw"},
           {"out/{item}.raw", "./x/../out/{item}.raw"},
           {"out/{item}.raw", folder / "out/{item:20}.raw"},
           {"{name}/{item}.raw", "out/{item}.raw"},
           {"out/{name}{item}.raw", "out/{item}{name}"},
           {"out/{item}-{name}.raw", "out/7-left.raw"}}) {
    EXPECT_FALSE(checked(first, second)) << first << " " << second;
  }
  for (const auto& [first, second] : std::vector<std::pair<std::string, std::string>>{
           {"out/{item}.raw", "out/{item}.png"},
           {"out/{item}.raw", "in/{item}.raw"},
           {"out/{item:3}.raw", "out/12.raw"},
           {"out/{item}.raw", "out/left.raw"},
           {"out/a{item}.raw", "out/b{item}.raw"},
           {"{name}/{item}.raw", "out/sub/{item}.raw"},
           // Without the number of the item, braces stand for themselves.
           {"out/{name}.tgm", "out/left.tgm"},
           {"out/{item", "out/{item}"}}) {
    EXPECT_TRUE(checked(first, second)) << first << " " << second;
  }
}

TEST(PipelinePaths, PatternsWithoutAFolderLieInTheCurrentOne) {
  const std::string here = fs::current_path().string();
  for (const auto& same : {std::string("./{item}.raw"), here + "/{item}.raw"}) {
    EXPECT_FALSE(check_outputs(writing("{item}.raw", same).g, "")) << same;
  }
}

TEST(PipelinePaths, OtherNamesOfTheFileCountToo) {
  const temp_folder folder;
  std::ofstream(folder / "real.tgm") << "x";
  fs::create_symlink(folder / "real.tgm", folder / "link.tgm");
  for (const std::string& other :
       {std::string("./out.tgm"), std::string("sub/../out.tgm"), folder / "out.tgm"}) {
    EXPECT_FALSE(check_outputs(writing("out.tgm", other).g, folder.path())) << other;
  }
  EXPECT_FALSE(check_outputs(writing("real.tgm", "link.tgm").g, folder.path()));
}

TEST(PipelinePaths, AStageMustNotWriteWhatAnotherOneReads) {
  const temp_folder folder;
  std::ofstream(folder / "in.tgm") << "x";
  fs::create_hard_link(folder / "in.tgm", folder / "same.tgm");
  const auto copying = [](const std::string& from, const std::string& to) {
    graph_builder b;
    b.source("read", "y:u8[?]").info.paths = {{"path", from, path_use::input}};
    b.sink("write", "x:u8[?]").info.paths = {{"to", to, path_use::output}};
    b.g.stages.back().place = "one.toml:8";
    return b;
  };
  const auto refused = check_outputs(copying("in.tgm", "in.tgm").g, folder.path());
  ASSERT_FALSE(refused);
  EXPECT_EQ(
      refused.error().message(),
      "cannot use the stage \"write\" (demo.write): expected another file than those "
      "that the pipeline reads in the setting \"to\", found \"in.tgm\", which the "
      "stage \"read\" reads; write to a new file and rename it afterwards\n  at "
      "one.toml:8");
  EXPECT_FALSE(check_outputs(copying("in.tgm", "same.tgm").g, folder.path()));
  EXPECT_TRUE(check_outputs(copying("in.tgm", "out.tgm").g, folder.path()));
  EXPECT_TRUE(check_outputs(copying("-", "-").g, folder.path()));
}

TEST(PipelinePaths, SeveralStagesMayWriteToWhatIsNoFile) {
  EXPECT_TRUE(check_outputs(writing("-", "-").g, ""));
  EXPECT_TRUE(check_outputs(writing("/dev/null", "/dev/null").g, ""));
}

TEST(PipelinePaths, MissingInputsAreNamed) {
  const temp_folder folder;
  std::ofstream(folder / "there.tgm") << "x";
  graph_builder b;
  b.source("read", "y:u8[?]").info.paths = {{"files", "there.tgm", path_use::input},
                                            {"files", "gone.tgm", path_use::input},
                                            {"files", "-", path_use::input},
                                            {"to", "new.tgm", path_use::output}};
  b.g.stages.back().place = "two.toml:4";
  const auto missing = flow::missing_inputs(b.g, folder.path());
  ASSERT_EQ(missing.size(), 1U);
  EXPECT_EQ(missing[0].code(), errc::not_found);
  EXPECT_EQ(missing[0].message(), "cannot read \"" + (folder / "gone.tgm") +
                                      "\" in the stage \"read\" (demo.read): expected a "
                                      "file or a folder, found none\n  at two.toml:4");
}

TEST(PipelinePaths, ATableSaysWhichSettingsArePaths) {
  struct owner {
    std::string path = "a";
    std::vector<std::string> files = {"b", "c"};
    std::string name = "d";
  };
  settings_table<owner> table("a test");
  table.add("path", &owner::path, "a path").path(path_use::output);
  table.add("files", &owner::files, "paths").path(path_use::input);
  table.add("name", &owner::name, "no path").may_change();
  flow::stage_info info;
  for (const auto& one : table.entries()) {
    flow::add_value(info, one, one.get({}));
  }
  ASSERT_EQ(info.paths.size(), 3U);
  EXPECT_EQ(info.paths[0].setting, "path");
  EXPECT_EQ(info.paths[0].use, path_use::output);
  EXPECT_EQ(info.paths[2].path, "c");
  EXPECT_EQ(info.frozen.size(), 2U);
}

}  // namespace
}  // namespace weir::test
