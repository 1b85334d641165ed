// SPDX-License-Identifier: Apache-2.0
#include "config/config.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "support/temp_folder.hpp"
#include "weir/base/file.hpp"

namespace weir::tools {
namespace {

std::string write(const test::temp_folder& folder, const std::string& text) {
  const std::string path = folder / "run.toml";
  std::ofstream(path) << text;
  return path;
}

error failure_of(const std::string& text, const std::vector<std::string>& sets = {}) {
  const test::temp_folder folder;
  auto loaded = load_config(write(folder, text), sets);
  if (loaded) {
    ADD_FAILURE() << "was accepted: " << text;
    return {errc::internal, ""};
  }
  return loaded.error();
}

TEST(Config, DefaultsComeBackFromTheirOwnToml) {
  const test::temp_folder folder;
  actors::run_config config;
  config.paths = {"/some/where", "/else\"where"};
  config.build.tokens = actors::one_pass;
  const std::string text = to_toml(config);
  const auto again = or_throw(load_config(write(folder, text), {}));
  EXPECT_EQ(to_toml(again), text);
  EXPECT_EQ(again.paths, config.paths);
  EXPECT_EQ(again.build.tokens, actors::one_pass);
}

TEST(Config, EveryKeyIsWrittenAndReadBack) {
  const auto changed = [](const config_key& key) -> std::string {
    if (key.expected.find("one of") == 0) {
      return key.name == "run.trace"      ? "all"
             : key.name == "run.replicas" ? "per_rank"
             : key.name == "stream.end"   ? "loop"
                                          : "split";
    }
    if (key.name == "name")
      return "\"other\"";
    if (key.name == "stream.path")
      return "[\"/a\", \"/b\"]";
    if (key.name == "stream.eot")
      return "false";
    if (key.name == "model.frequencies")
      return "[1, 2]";
    return key.expected.find("number") != std::string::npos ? "0.25" : "48";
  };
  const test::temp_folder folder;
  for (const config_key& key : config_keys()) {
    const std::string plain = to_toml({});
    auto config =
        or_throw(load_config(write(folder, ""), {{key.name + "=" + changed(key)}}));
    EXPECT_NE(to_toml(config), plain) << key.name;
    const auto again = or_throw(load_config(write(folder, to_toml(config)), {}));
    EXPECT_EQ(to_toml(again), to_toml(config)) << key.name;
  }
}

TEST(Config, UnknownKeyNamesTheNearestWithItsPlace) {
  const error e = failure_of("name = \"a\"\n[stream]\nchnk = 64\n");
  EXPECT_EQ(e.code(), errc::unknown_key);
  EXPECT_EQ(e.text(),
            "cannot set key \"stream.chnk\": expected a known key, found none of that "
            "name; did you mean "
            "\"stream.chunk\"?");
  EXPECT_EQ(e.where().substr(e.where().rfind('/') + 1), "run.toml:3:8");
}

TEST(Config, UnknownKeyThatEndsAKnownOneNamesThat) {
  const error e = failure_of("", {"workers=2"});
  EXPECT_NE(e.text().find("did you mean \"run.workers\"?"), std::string::npos)
      << e.text();
  EXPECT_EQ(e.where(), "--set workers");
}

TEST(Config, WrongTypeSaysWhatWasExpected) {
  const error e = failure_of("[stream]\nchunk = \"big\"\n");
  EXPECT_EQ(e.code(), errc::invalid_argument);
  EXPECT_EQ(e.text(),
            "cannot set key \"stream.chunk\": expected an integer from 1 to 16777216, "
            "found string \"big\"");
}

TEST(Config, ValuesOutOfRangeAreRefused) {
  for (const char* set :
       {"run.workers=0", "stream.lanes=-1", "model.rate=nan", "model.beta1=2.0",
        "run.trace=sometimes", "phase.build.tokens=some", "stream.path=[1]",
        "model.frequencies=[]", "name=a/b", "name=.hidden", "stream.eot=1", "seed=1.5"}) {
    EXPECT_EQ(failure_of("", {set}).code(), errc::invalid_argument) << set;
  }
}

TEST(Config, BrokenTomlNamesLineAndColumn) {
  const error e = failure_of("seed = 1\nseed 2\n");
  EXPECT_EQ(e.code(), errc::invalid_argument);
  EXPECT_NE(e.where().find("run.toml:2:"), std::string::npos) << e.where();
}

TEST(Config, MissingFileIsNotFound) {
  const auto loaded = load_config("/no/such/file.toml", {});
  ASSERT_FALSE(loaded);
  EXPECT_EQ(exit_code_of(loaded.error().code()), 3);
}

TEST(Config, AssignmentIsTomlOrElseAString) {
  const auto value = [](const char* text) {
    return or_throw(parse_assignment(text)).second;
  };
  EXPECT_EQ(std::get<std::int64_t>(value("a=7").data), 7);
  EXPECT_EQ(std::get<std::string>(value("a=\"7\"").data), "7");
  EXPECT_EQ(std::get<std::string>(value("a=/tmp/x y").data), "/tmp/x y");
  EXPECT_EQ(std::get<std::string>(value("a=x=y").data), "x=y");
  EXPECT_EQ(std::get<bool>(value("a=true").data), true);
  EXPECT_EQ(std::get<std::string>(value("a=1\nb = 2").data), "1\nb = 2");
  EXPECT_EQ(std::get<config_list>(value("a=[1, 2]").data).size(), 2U);
  EXPECT_FALSE(parse_assignment("nothing"));
  EXPECT_FALSE(parse_assignment("=7"));
}

TEST(Config, LaterAssignmentsWin) {
  const test::temp_folder folder;
  const auto config =
      or_throw(load_config(write(folder, "seed = 1"), {{"seed=2", "seed=3"}}));
  EXPECT_EQ(config.seed, 3U);
}

TEST(Config, RelativePathsBeginAtTheFileOrAtTheWorkingFolder) {
  const test::temp_folder folder;
  const std::string file =
      write(folder, "stream.path = [\"text\", \"../b\", \"/c\", \"-\"]");
  const auto config = or_throw(load_config(file, {}));
  const std::string parent = folder_of(folder.path());
  EXPECT_EQ(config.paths,
            (std::vector<std::string>{folder / "text", parent + "/b", "/c", "-"}));
  const auto set = or_throw(load_config(file, {{"stream.path=text"}}));
  EXPECT_EQ(set.paths.front(), (std::filesystem::current_path() / "text").string());
}

TEST(ResumeConfig, TakesWhatMayChangeAndRefusesTheRest) {
  const test::temp_folder folder;
  std::ofstream(folder / "config.toml") << to_toml({});
  const auto config = or_throw(load_resume_config(
      folder.path(), {{"run.workers=2", "stream.prefetch=0", "stream.ranks=1",
                       "run.trace=off", "checkpoint.every_tokens=5"}}));
  EXPECT_EQ(config.workers, 2U);
  EXPECT_EQ(config.every_tokens, 5U);
  const auto refused = load_resume_config(folder.path(), {{"stream.chunk=128"}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::config_mismatch);
  EXPECT_EQ(refused.error().text(),
            "cannot change key \"stream.chunk\" of a run that has begun: "
            "expected 64, found "
            "128");
  EXPECT_TRUE(load_resume_config(folder.path(), {{"stream.chunk=64"}}));
}

TEST(ProseToml, NamesEveryKeyAndLeavesTestAndStreamOut) {
  const std::string path = WEIR_SOURCE_DIR "/demos/prose/prose.toml";
  const auto content = or_throw(read_file(posix_file_system(), path));
  std::set<std::string> named;
  for (const auto& [key, value] : or_throw(parse_toml(as_text(content), path))) {
    named.insert(key);
  }
  for (const config_key& key : config_keys()) {
    EXPECT_EQ(named.count(key.name), 1U) << key.name;
  }
  const auto config = or_throw(load_config(path, {}));
  EXPECT_EQ(config.test.tokens, 0U);
  EXPECT_EQ(config.stream.tokens, 0U);
  EXPECT_EQ(config.build.tokens, actors::one_pass);
  EXPECT_EQ(config.name, "prose");
}

}  // namespace
}  // namespace weir::tools
