// SPDX-License-Identifier: Apache-2.0
/// @file
/// Compares what `weir inspect STAGE --json` says about every stage with the description
/// of the stage.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/values.hpp"
#include "demo_stages.hpp"
#include "pipeline/stage_page.hpp"
#include "weir/actors/pipelines.hpp"

namespace weir::test {
namespace {

using nlohmann::json;

/// Returns the facts of a stage as the command prints them.
json inspected(const std::string& stage) {
  const pipeline_folder folder("");
  const outcome o = folder.call<tools::stages_options>(&tools::inspect_command,
                                                       {.stage = stage, .json = true});
  EXPECT_EQ(o.refusal, "");
  return json::parse(o.out);
}
/// Returns a setting among the facts of a stage.
json inspected_setting(const std::string& stage, const std::string& name) {
  const json found = inspected(stage);
  for (const json& one : found.at("settings")) {
    if (one.at("name") == name) {
      return one;
    }
  }
  ADD_FAILURE() << "expected a setting \"" << name << "\" of " << stage << ", found none";
  return json::object();
}
/// Returns the names of the stages that come with Weir.
std::vector<std::string> standard_names() {
  add_standard_stages();
  std::vector<std::string> names = flow::stages().names();
  std::erase_if(names, [](const std::string& name) {
    return name.starts_with("test.") || name.starts_with("demo.");
  });
  return names;
}

/// Expects that a bound is a number that the setting accepts, and that it is the last
/// one. A rule may refuse the bound itself.
template <class Number>
void expect_bound(const json& found, Number bound, Number beyond,
                  const setting_info& setting) {
  ASSERT_TRUE(found.is_number()) << found;
  EXPECT_EQ(found.get<Number>(), bound);
  EXPECT_TRUE(setting.rule || setting.accepts({bound}));
  EXPECT_FALSE(beyond != bound && setting.accepts({beyond}));
}
/// Expects the numbers of a range; returns how many bounds there were.
std::size_t expect_range(const json& found, const setting_info& setting) {
  constexpr auto largest = std::numeric_limits<std::int64_t>::max();
  constexpr auto infinity = std::numeric_limits<double>::infinity();
  if (const auto* whole = std::get_if<integer_range>(&setting.range)) {
    expect_bound<std::int64_t>(found.at("min"), whole->low, whole->low - 1, setting);
    expect_bound<std::int64_t>(found.at("max"), whole->high,
                               whole->high == largest ? largest : whole->high + 1,
                               setting);
    return 2;
  }
  if (const auto* real = std::get_if<real_range>(&setting.range);
      real != nullptr && found.contains("min")) {
    expect_bound<double>(found.at("min"), real->low, std::nextafter(real->low, -infinity),
                         setting);
    expect_bound<double>(found.at("max"), real->high,
                         std::nextafter(real->high, infinity), setting);
    return 2;
  }
  if (const auto* words = std::get_if<word_range>(&setting.range)) {
    EXPECT_EQ(found.at("words"), json(words->words));
  }
  EXPECT_FALSE(found.contains("min"));
  return 0;
}

void expect_ports(const json& found, const std::vector<flow::port_info>& ports) {
  ASSERT_EQ(found.size(), ports.size());
  EXPECT_FALSE(ports.empty());
  for (std::size_t i = 0; i < ports.size(); ++i) {
    EXPECT_EQ(found[i], json({{"name", ports[i].name},
                              {"direction", ports[i].inlet ? "in" : "out"},
                              {"type", ports[i].type.text()}}));
    EXPECT_TRUE(flow::port_type::parse(found[i].at("type").get<std::string>()));
  }
}
/// Returns the number of bounds of the settings.
std::size_t expect_settings(const json& found, const flow::stage_info& info) {
  EXPECT_EQ(found.size(), info.settings.size());
  std::size_t bounds = 0;
  for (std::size_t i = 0; i < std::min(found.size(), info.settings.size()); ++i) {
    const setting_info& setting = info.settings[i];
    SCOPED_TRACE(setting.name);
    EXPECT_EQ(found[i].at("name"), setting.name);
    EXPECT_EQ(found[i].at("documentation"), setting.documentation);
    EXPECT_NE(setting.documentation, "");
    EXPECT_EQ(found[i].at("takes"), setting.expected());
    EXPECT_EQ(found[i].at("unit"), setting.unit);
    EXPECT_EQ(found[i].at("required"), setting.required);
    EXPECT_EQ(found[i].at("may_change"), setting.may_change);
    EXPECT_EQ(found[i].at("default"),
              setting.required ? json() : json(tools::toml_text(info.defaults.at(i))));
    bounds += expect_range(found[i], setting);
  }
  return bounds;
}
void expect_state(const json& found, const std::vector<flow::state_info>& state) {
  ASSERT_EQ(found.size(), state.size());
  for (std::size_t i = 0; i < state.size(); ++i) {
    EXPECT_EQ(found[i], json({{"name", state[i].name},
                              {"kind", state[i].tensor ? "tensor" : "value"}}));
  }
}

TEST(InspectCommand, SaysAsJsonOfEveryStageWhatItsDescriptionSays) {
  std::size_t stages = 0;
  std::size_t with_state = 0;
  std::size_t bounds = 0;
  for (const std::string& name : standard_names()) {
    SCOPED_TRACE(name);
    const json found = inspected(name);
    const flow::stage_info info = or_throw(flow::stages().describe(name));
    const flow::stage_info used = or_throw(tools::as_in_example(info));
    EXPECT_EQ(found.at("name"), name);
    EXPECT_EQ(found.at("documentation"), info.documentation);
    EXPECT_EQ(found.at("details"), info.details);
    EXPECT_EQ(found.at("example"), info.example);
    EXPECT_NE(info.example.find("use = \"" + name + "\""), std::string::npos);
    EXPECT_TRUE(found.at("face").is_string());
    expect_ports(found.at("ports"), used.ports);
    bounds += expect_settings(found.at("settings"), info);
    expect_state(found.at("state"), used.state);
    EXPECT_EQ(found.at("takes"), used.takes);
    EXPECT_EQ(found.at("gives"), used.gives);
    EXPECT_EQ(found.at("stateless"), used.stateless);
    EXPECT_FALSE(used.stateless && !used.state.empty());
    with_state += used.state.empty() ? 0 : 1;
    ++stages;
  }
  EXPECT_GT(stages, 35U);
  EXPECT_GT(with_state, 10U);
  EXPECT_GT(bounds, 60U);
}

TEST(InspectCommand, GivesRangesAsNumbers) {
  const json size = inspected_setting("batch", "size");
  EXPECT_EQ(size.at("min"), 1);
  EXPECT_EQ(size.at("max"), 4096);
  const json rate = inspected_setting("rate", "items_per_second");
  EXPECT_EQ(rate.at("min"), 0.1);
  EXPECT_EQ(rate.at("max"), 1e9);
  const json capacity = inspected_setting("hn4.put", "capacity");
  EXPECT_EQ(capacity.at("min"), 134217728);
  EXPECT_EQ(capacity.at("step"), 512);
  const json shape = inspected_setting("generator", "shape");
  EXPECT_EQ(shape.at("shortest"), 0);
  EXPECT_EQ(shape.at("longest"), 8);
  EXPECT_EQ(shape.at("items"), json({{"min", 0}, {"max", std::int64_t{1} << 40}}));
  const json gaps = inspected_setting("zip", "gaps");
  EXPECT_EQ(gaps.at("words"), json({"skip", "pass"}));
  EXPECT_FALSE(gaps.contains("min"));
  // A number without bounds has none, and a text neither.
  EXPECT_FALSE(inspected_setting("elementwise", "operand").contains("min"));
  EXPECT_FALSE(inspected_setting("tgm.write", "path").contains("max"));
}

}  // namespace
}  // namespace weir::test
