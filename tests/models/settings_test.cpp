// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests that the ranges in the settings table of the prose model are those that the
/// model accepts.
#include "weir/base/settings.hpp"

#include <gtest/gtest.h>

#include "support/range_ends.hpp"
#include "weir/models/prose.hpp"

namespace weir::test {
namespace {

using models::prose_config;
using models::prose_settings;

/// Returns a list of periods as the value of a setting.
setting_value periods(std::initializer_list<std::int64_t> list) {
  setting_value::list items;
  for (const std::int64_t period : list) {
    items.push_back({period});
  }
  return {std::move(items)};
}

/// Returns lists of periods at the ends of what is accepted, and their refused
/// neighbours.
const range_ends& frequency_ends() {
  static const range_ends ends = {
      {periods({1}), periods({1, 2, 4, 8, 16, 32, 64, 128}), periods({1, 1 << 30})},
      {periods({}), periods({1, 2, 4, 8, 16, 32, 64, 128, 192}),
       periods({1, (1 << 30) + 64}), periods({0}), periods({2}), periods({1, 1}),
       periods({1, 8, 4}), periods({1, 3}), periods({1, 96}),
       setting_value{std::int64_t{1}}}};
  return ends;
}

TEST(ProseSettings, BothEndsOfEveryRangeAreAcceptedAndTheirNeighboursRefused) {
  walk_ranges(
      prose_settings(), prose_config{},
      [](prose_config& config, const std::string& name, const setting_value& value) {
        return prose_settings().assign(config, name, value);
      },
      [](const prose_config& config) { return models::check_config(config); },
      {{"frequencies", frequency_ends()}});
}

TEST(ProseSettings, ModelIsNotMadeFromARefusedConfiguration) {
  const auto engine = or_throw(runtime::engine::create({}));
  walk_ranges(
      prose_settings(), prose_config{},
      [](prose_config& config, const std::string& name, const setting_value& value) {
        return prose_settings().assign(config, name, value);
      },
      [&](const prose_config& config) -> result<void> {
        // Models at the upper ends of all ranges need gigabytes, so a model is only asked
        // for if the check refuses the configuration.
        if (models::check_config(config)) {
          return {};
        }
        const auto model = models::prose::create(*engine, config);
        return model ? result<void>() : result<void>(model.error());
      },
      {{"frequencies", frequency_ends()}});
}

TEST(ProseSettings, NameEveryMemberOfTheConfiguration) {
  prose_config config;
  for (const auto& s : prose_settings().entries()) {
    const setting_value changed = s.name == "frequencies" ? periods({1, 2})
                                  : std::holds_alternative<real_range>(s.range)
                                      ? setting_value{0.25}
                                      : setting_value{std::int64_t{16}};
    ASSERT_TRUE(prose_settings().assign(config, s.name, changed)) << s.name;
  }
  const auto& c = config;
  for (const std::uint64_t number :
       {std::uint64_t{c.vocab}, std::uint64_t{c.width}, std::uint64_t{c.blocks},
        std::uint64_t{c.heads}, std::uint64_t{c.hidden}, std::uint64_t{c.warm_up},
        std::uint64_t{c.lanes}, std::uint64_t{c.max_chunk}, c.seed}) {
    EXPECT_EQ(number, 16U);
  }
  for (const double number :
       {c.rate, c.final_rate, c.beta1, c.beta2, c.epsilon, c.decay, c.clip}) {
    EXPECT_EQ(number, 0.25);
  }
  EXPECT_EQ(c.frequencies, (std::vector<std::uint64_t>{1, 2}));
}

}  // namespace
}  // namespace weir::test
