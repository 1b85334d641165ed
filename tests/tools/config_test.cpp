// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests configurations in TOML: ranges, errors with their place, assignments, resuming,
/// and the page of settings.
#include "config/config.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "config/reference.hpp"
#include "support/folders.hpp"
#include "support/range_ends.hpp"
#include "support/temp_folder.hpp"
#include "weir/base/file.hpp"
#include "weir/base/settings.hpp"

namespace weir::tools {
namespace {

/// Writes a configuration and returns its path.
std::string write(const test::temp_folder& folder, const std::string& text) {
  const std::string path = folder / "run.toml";
  std::ofstream(path) << text;
  return path;
}

/// Returns the error of loading a configuration, which must fail.
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
  config.source.paths = {"/some/where", "/else\"where"};
  config.phase.build.tokens = actors::one_pass;
  const std::string text = to_toml(config);
  const auto again = or_throw(load_config(write(folder, text), {}));
  EXPECT_EQ(to_toml(again), text);
  EXPECT_EQ(again.source.paths, config.source.paths);
  EXPECT_EQ(again.phase.build.tokens, actors::one_pass);
}

/// Returns the ends of the settings that have a rule besides their range.
std::map<std::string, test::range_ends> special_ends() {
  const auto text = [](const std::string& words) { return setting_value{words}; };
  const auto list = [](std::vector<setting_value> items) {
    return setting_value{setting_value::list(std::move(items))};
  };
  const auto periods = [&](std::initializer_list<std::int64_t> numbers) {
    std::vector<setting_value> items;
    for (const std::int64_t number : numbers) {
      items.push_back({number});
    }
    return list(std::move(items));
  };
  return {
      {"name",
       {{text("a"), text(std::string(100, 'a'))},
        {text(""),
         text(std::string(101, 'a')),
         text(".a"),
         text("a/b"),
         {std::int64_t{7}}}}},
      {"stream.path",
       {{text("/a"), list({text("/a"), text("/b")})},
        {text(""), list({text("/a"), text("")}), list({{std::int64_t{1}}})}}},
      {"stream.skip",
       {{text("/a:1-2"), list({text("/a:1-2"), text("/b:0-9")})},
        {text("a"), text("a:5-5"), list({text("/a:1-2"), text("a:2-1")})}}},
      {"stream.tokenizer", {{text("/a")}, {{std::int64_t{1}}}}},
      {"stream.token_file", {{text("/a")}, {{std::int64_t{1}}}}},
      {"stream.log", {{text("/a")}, {{std::int64_t{1}}}}},
      {"stream.mix.sources", {{list({text("a")})}, {{std::int64_t{1}}}}},
      {"stream.mix.exhausted",
       {{text("drop"), list({text("loop"), text("stop")})}, {text("a")}}},
      {"phase.stream.output",
       {{text(""), text("a.tgm"), text("/a/b.tgm")},
        {text("curve.tgm"), text("a/"), {{std::int64_t{1}}}}}},
      {"phase.order",
       {{list({text("test")}), list({text("build"), text("stream"), text("build")})},
        {text("build"), list({text("a")}), list({{std::int64_t{1}}})}}},
      {"model.frequencies",
       {{periods({1}), periods({1, 2, 4, 8, 16, 32, 64, 128}), periods({1, 1 << 30})},
        {periods({}), periods({1, 2, 4, 8, 16, 32, 64, 128, 192}),
         periods({1, (1 << 30) + 64}), periods({0}), periods({2}), periods({1, 8, 4})}}}};
}

/// Gives a run the other settings that one setting of its source needs.
void complete(actors::run_config& config, const std::string& setting) {
  actors::source_settings& source = config.source;
  if (setting == "stream.command" || setting == "stream.listen") {
    source.paths.clear();
  } else if (setting == "stream.token_file") {
    source.paths.clear();
    source.listen = "tcp:0";
  } else if (setting == "stream.turns" || setting == "stream.log") {
    source.paths = {"-"};
  } else if (setting == "stream.mix.sources") {
    config.sources["a"].paths = std::exchange(source.paths, {});
  } else if (setting == "stream.sample.keep") {
    source.sample.among = std::numeric_limits<std::uint32_t>::max();
  }
}

TEST(Config, BothEndsOfEveryRangeAreReadAndCheckedAndTheirNeighboursRefused) {
  actors::run_config good;
  good.folder = "folder";
  good.source.paths = {"/text"};
  good.sources["a"].paths = {"/other"};  // settings that name a source may name this one
  test::walk_ranges(
      actors::run_settings(), good,
      [](actors::run_config& config, const std::string& name,
         const setting_value& value) -> result<void> {
        WEIR_TRY(const auto entries,
                 parse_toml(name + " = " + toml_text(value), "run.toml"));
        EXPECT_EQ(entries.size(), 1U);
        EXPECT_EQ(entries.front().value.describe(), value.describe());
        if (name == "stream.ranks") {
          config.stream.lanes = 1024;  // every rank needs a lane
        }
        complete(config, name);
        return apply_entry(config, entries.front(), "/");
      },
      [](const actors::run_config& config) -> result<void> {
        WEIR_TRY([[maybe_unused]] const auto warnings, actors::check_config(config));
        return {};
      },
      special_ends());
}

TEST(Config, EveryKeyIsWrittenAndReadBack) {
  const test::temp_folder folder;
  const auto ends = special_ends();
  for (const auto& key : actors::run_settings().entries()) {
    const auto found = ends.find(key.name);
    const auto inside =
        found != ends.end()
            ? found->second.inside
            : std::visit([](const auto& r) { return test::ends_of(r).inside; },
                         key.range);
    for (const setting_value& value : inside) {
      SCOPED_TRACE(key.name + " = " + value.describe());
      actors::run_config config;
      config.source.paths = {"/text"};
      key.set(config, value);
      const auto again = or_throw(load_config(write(folder, to_toml(config)), {}));
      EXPECT_EQ(key.get(again), key.get(config));
      EXPECT_EQ(to_toml(again), to_toml(config));
    }
  }
}

TEST(Config, UnknownKeyNamesTheNearestWithItsPlace) {
  const error e = failure_of("name = \"a\"\n[stream]\nchnk = 64\n");
  EXPECT_EQ(e.code(), errc::unknown_key);
  EXPECT_EQ(e.text(),
            "cannot set key \"stream.chnk\": expected a known key, found none of that "
            "name; did you mean "
            "\"stream.chunk\"?");
  EXPECT_EQ(e.location().substr(e.location().rfind('/') + 1), "run.toml:3:8");
}

TEST(Config, UnknownKeyThatEndsAKnownOneNamesThat) {
  const error e = failure_of("", {"workers=2"});
  EXPECT_NE(e.text().find("did you mean \"run.workers\"?"), std::string::npos)
      << e.text();
  EXPECT_EQ(e.location(), "--set workers");
}

TEST(Config, WrongTypeSaysWhatWasExpected) {
  const error e = failure_of("[stream]\nchunk = \"big\"\n");
  EXPECT_EQ(e.code(), errc::invalid_argument);
  EXPECT_EQ(e.text(),
            "cannot set key \"stream.chunk\": expected an integer from 1 to 65536, "
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
  EXPECT_NE(e.location().find("run.toml:2:"), std::string::npos) << e.location();
}

TEST(Config, MissingFileIsNotFound) {
  const auto loaded = load_config("/no/such/file.toml", {});
  ASSERT_FALSE(loaded);
  EXPECT_EQ(exit_code_of(loaded.error().code()), 3);
}

TEST(Config, AssignmentIsTomlOrElseAString) {
  const auto value = [](const char* text) {
    return or_throw(parse_assignment(text)).value;
  };
  EXPECT_EQ(std::get<std::int64_t>(value("a=7").data), 7);
  EXPECT_EQ(std::get<std::string>(value("a=\"7\"").data), "7");
  EXPECT_EQ(std::get<std::string>(value("a=/tmp/x y").data), "/tmp/x y");
  EXPECT_EQ(std::get<std::string>(value("a=x=y").data), "x=y");
  EXPECT_EQ(std::get<bool>(value("a=true").data), true);
  EXPECT_EQ(std::get<std::string>(value("a=1\nb = 2").data), "1\nb = 2");
  EXPECT_EQ(std::get<setting_value::list>(value("a=[1, 2]").data).size(), 2U);
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
  EXPECT_EQ(config.source.paths,
            (std::vector<std::string>{folder / "text", parent + "/b", "/c", "-"}));
  const auto set = or_throw(load_config(file, {{"stream.path=text"}}));
  EXPECT_EQ(set.source.paths.front(),
            (std::filesystem::current_path() / "text").string());
}

TEST(Config, TablesOfSourcesAreReadAndWrittenBack) {
  const test::temp_folder folder;
  const std::string file = write(folder,
                                 "[stream]\npath = \"a\"\n[source.one]\npath = \"b\"\n"
                                 "eot = false\n[source.t-2]\npath = \"-\"\n");
  const auto config = or_throw(load_config(file, {{"source.t-2.eot=false"}}));
  ASSERT_EQ(config.sources.size(), 2U);
  actors::source_settings expected;
  expected.paths = {folder / "b"};
  expected.eot = false;
  EXPECT_EQ(config.sources.at("one"), expected);
  expected.paths = {"-"};
  EXPECT_EQ(config.sources.at("t-2"), expected);
  const auto again = or_throw(load_config(write(folder, to_toml(config)), {}));
  EXPECT_EQ(again.sources, config.sources);
}

TEST(Config, KeysOfSourcesAreCheckedAsThoseOfTheStream) {
  EXPECT_EQ(failure_of("[source.one]\npth = \"b\"\n").text(),
            "cannot set key \"source.one.pth\": expected a known key, found none of that "
            "name; did you mean \"source.one.path\"?");
  EXPECT_EQ(failure_of("[source.one]\neot = 3\n").text(),
            "cannot set key \"source.one.eot\": expected true or false, found integer 3");
  EXPECT_EQ(failure_of("[source.\"a b\"]\neot = true\n").code(), errc::invalid_argument);
  EXPECT_EQ(failure_of("[source]\neot = true\n").code(), errc::unknown_key);
}

TEST(ResumeConfig, TakesWhatMayChangeAndRefusesTheRest) {
  const test::temp_folder folder;
  std::ofstream(folder / "config.toml") << to_toml({});
  const auto config = or_throw(load_resume_config(
      folder.path(),
      {{"run.workers=2", "stream.prefetch=0", "stream.ranks=1", "run.trace=off",
        "run.deadline=7", "name=other", "checkpoint.every_tokens=5"}}));
  EXPECT_EQ(config.workers, 2U);
  EXPECT_EQ(config.deadline_s, 7);
  EXPECT_EQ(config.every_tokens, 5U);
  const auto refused = load_resume_config(folder.path(), {{"model.width=64"}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::config_mismatch);
  EXPECT_EQ(refused.error().text(),
            "cannot change key \"model.width\" of a run that has begun: expected 128, "
            "found 64");
  EXPECT_TRUE(load_resume_config(folder.path(), {{"model.width=128"}}));
}

TEST(ResumeConfig, RefusesEveryKeyThatIsFixed) {
  const test::temp_folder folder;
  actors::run_config begun;
  begun.source.paths = {"/text"};
  std::ofstream(folder / "config.toml") << to_toml(begun);
  for (const auto& [key, value] : {std::pair{"seed", "2"},
                                   {"model.frequencies", "[1, 2]"},
                                   {"stream.end", "loop"},
                                   {"model.heads", "4"}}) {
    const auto refused =
        load_resume_config(folder.path(), {{std::string(key) + "=" + value}});
    ASSERT_FALSE(refused) << key;
    EXPECT_EQ(refused.error().code(), errc::config_mismatch) << key;
  }
}

TEST(SettingsPage, OfTheDocumentationIsWhatTheTablesSay) {
  const std::string path = weir::test::source_folder() + "/docs/settings.md";
  const auto page = or_throw(read_file(posix_file_system(), path));
  EXPECT_TRUE(as_text(page) == settings_page(settings_of_run()))
      << "docs/settings.md is out of date; write it again with build/weir settings "
         "--markdown >docs/settings.md";
}

TEST(SettingsPage, NamesEveryKeyWithItsRangeAndDefault) {
  const auto all = settings_of_run();
  const std::string text = settings_text(all);
  for (const listed_setting& s : all) {
    EXPECT_NE(text.find(s.info->name + "\n"), std::string::npos) << s.info->name;
    EXPECT_NE(text.find(s.info->expected()), std::string::npos) << s.info->name;
  }
  EXPECT_EQ(settings_text(or_throw(select_settings(all, "model.heads"))),
            "model.heads\n    Memories per level, of 32 features each\n    takes an "
            "integer from 1 to 16\n    default: 2\n");
  EXPECT_EQ(or_throw(select_settings(all, "phase.test")).size(), 3U);
  const auto unknown = select_settings(all, "heads");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().text().find("did you mean \"model.heads\"?"),
            std::string::npos);
}

TEST(ProseToml, NamesEveryKeyAndLeavesTestAndStreamOut) {
  const std::string path = weir::test::source_folder() + "/demos/prose/prose.toml";
  const auto content = or_throw(read_file(posix_file_system(), path));
  std::set<std::string> named;
  for (const config_entry& entry : or_throw(parse_toml(as_text(content), path))) {
    named.insert(entry.key);
  }
  for (const auto& key : actors::run_settings().entries()) {
    EXPECT_EQ(named.count(key.name), 1U) << key.name;
  }
  const auto config = or_throw(load_config(path, {}));
  EXPECT_EQ(config.phase.test.tokens, 0U);
  EXPECT_EQ(config.phase.stream.tokens, 0U);
  EXPECT_EQ(config.phase.build.tokens, actors::one_pass);
  EXPECT_EQ(config.name, "prose");
}

}  // namespace
}  // namespace weir::tools
