// SPDX-License-Identifier: Apache-2.0
/// @file
/// Walks the ranges of all settings of a pipeline's file: the keys outside of its stages,
/// and the settings of every stage in the catalog.
#include <gtest/gtest.h>

#include "actors/stages/stage_inputs.hpp"
#include "config/values.hpp"
#include "demo_stages.hpp"
#include "pipeline/file.hpp"
#include "support/range_ends.hpp"
#include "support/temp_folder.hpp"

namespace weir::test {
namespace {

using tools::pipeline_settings;
using tools::read_pipeline;

/// Returns the ends of the keys outside of stages that have a rule besides their range.
std::map<std::string, range_ends> ends_with_rules() {
  const auto text = [](const std::string& words) { return setting_value{words}; };
  const range_ends stall{{text("1 s"), text("24 h"), text("1500 ms")},
                         {text("999 ms"),
                          text("86401 s"),
                          text("60"),
                          text("9 items"),
                          text("9 s, 9 items"),
                          text(""),
                          {std::int64_t{60}}}};
  return {
      {"name",
       {{text("a"), text(std::string(100, 'a')), text("-_.")},
        {text(""),
         text(std::string(101, 'a')),
         text(".a"),
         text("a/b"),
         {std::int64_t{7}}}}},
      {"files", {{text("/"), text("/a b")}, {text(""), text("a"), {std::int64_t{7}}}}},
      {"run.stall", stall},
      {"run.deadline", stall},
      {"checkpoint.every",
       {{text(""), text("1 items"), text("1 s"), text("5 items, 2 min")},
        {text("1 MiB"), text("1 items, 1 MiB"), text("often"), {std::int64_t{5}}}}}};
}

TEST(PipelineSettings, BothEndsOfEveryRangeAreReadAndTheirNeighboursRefused) {
  pipeline_settings good;
  good.name = "a";
  good.files = "/";
  walk_ranges(
      tools::pipeline_table(), good,
      [](pipeline_settings& settings, const std::string& name,
         const setting_value& value) -> result<void> {
        const std::string text = name + " = " + tools::toml_text(value) +
                                 "\n[[stage]]\nname = \"s\"\nuse = \"null\"\n";
        WEIR_TRY(auto read, read_pipeline(text, "a.toml", "/", {}));
        settings = std::move(read.settings);
        return {};
      },
      [](const pipeline_settings& settings) {
        return tools::pipeline_table().check(settings);
      },
      ends_with_rules());
}

/// Makes a stage as its example does, with another value of one setting.
result<void> make_with(const flow::stage_info& info, const setting_info& setting,
                       const setting_value& value) {
  WEIR_TRY(const auto example, read_pipeline(info.example, "a.toml", "/", {}));
  const auto used =
      std::ranges::find(example.stages, info.name, &tools::written_stage::use);
  const std::string key = used->name + "." + setting.name;
  WEIR_TRY(const auto changed, read_pipeline(info.example, "a.toml", "/",
                                             {{key + "=" + tools::toml_text(value)}}));
  given_settings given;
  for (const tools::config_entry& entry :
       changed.stages[static_cast<std::size_t>(used - example.stages.begin())].settings) {
    given.emplace(entry.key, given_value(entry.value));
  }
  WEIR_TRY([[maybe_unused]] const auto made, flow::stages().make(info.name, given));
  return {};
}

/// Returns the values at the ends of the range of a setting and next to them.
std::vector<setting_value> values_around(const setting_info& setting) {
  range_ends ends =
      std::visit([](const auto& r) { return test::ends_of(r); }, setting.range);
  std::vector<setting_value> all = std::move(ends.inside);
  all.insert(all.end(), ends.outside.begin(), ends.outside.end());
  return all;
}

// Every stage of the catalog is made by its reader as in its example, with one setting
// changed. The reader refuses the values that the table of the stage refuses, with the
// words of the table. It may refuse others by a rule of its own, such as names of objects
// that do not exist, but not by another range.
TEST(StageSettings, BothEndsOfEveryRangeAreReadAndTheirNeighboursRefused) {
  add_standard_stages();
  std::size_t accepted = 0;
  std::size_t refused = 0;
  for (const std::string& name : flow::stages().names()) {
    const flow::stage_info info = or_throw(flow::stages().describe(name));
    if (info.example.empty()) {
      continue;  // a stage of the tests
    }
    for (const setting_info& setting : info.settings) {
      const std::string range =
          "\"" + setting.name + "\": expected " + setting.expected() + ", found";
      for (const setting_value& value : values_around(setting)) {
        SCOPED_TRACE(name + ": " + setting.name + " = " + value.describe());
        const auto made = make_with(info, setting, value);
        const std::string text = made ? std::string() : made.error().text();
        if (setting.accepts(value)) {
          EXPECT_EQ(text.find(range), std::string::npos) << text;
          accepted += made ? 1 : 0;
        } else {
          ASSERT_FALSE(made);
          EXPECT_EQ(made.error().code(), errc::invalid_argument) << text;
          EXPECT_NE(text.find(range), std::string::npos) << text;
          ++refused;
        }
      }
    }
  }
  EXPECT_GT(accepted, 100U) << "too few values were tried";
  EXPECT_GT(refused, 200U) << "too few values were tried";
}

}  // namespace
}  // namespace weir::test
