// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests that the table of the stream's settings accepts exactly what the stream accepts.
#include <gtest/gtest.h>

#include "context_support.hpp"
#include "support/range_ends.hpp"
#include "weir/base/settings.hpp"

namespace weir::test {
namespace {

using storage::context_stream;
using storage::stream_config;
using storage::stream_settings;

/// Returns lists of periods at the ends of what is accepted. The fastest level must fire
/// in every chunk, so its period is 1 in all of them.
range_ends frequency_ends() {
  const auto list = [](std::initializer_list<std::int64_t> periods) {
    setting_value::list items;
    for (const std::int64_t period : periods) {
      items.push_back({period});
    }
    return setting_value{std::move(items)};
  };
  constexpr std::int64_t longest = std::numeric_limits<std::int64_t>::max();
  return {{list({}), list({1}), list({1, longest})},
          {list({0}), list({1, 0}), setting_value{std::int64_t{1}}}};
}

TEST(StreamSettings, BothEndsOfEveryRangeAreAcceptedAndTheirNeighboursRefused) {
  walk_ranges(
      stream_settings(), stream_config{},
      [](stream_config& config, const std::string& name, const setting_value& value) {
        auto set = stream_settings().assign(config, name, value);
        if (set && name == "ranks") {
          config.lanes = config.ranks;  // each rank hosts a lane
        }
        return set;
      },
      [](const stream_config& config) -> result<void> {
        auto opened = context_stream::open(
            config, or_throw(storage::open_memory_tokens(tokens{1, 2, 3})));
        return opened ? result<void>() : result<void>(opened.error());
      },
      {{"frequencies", frequency_ends()}});
}

TEST(StreamSettings, MoreRanksThanLanesAreRefused) {
  stream_config config;
  config.lanes = 3;
  config.ranks = 3;
  EXPECT_TRUE(check_config(config));
  config.ranks = 4;
  const auto checked = check_config(config);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code(), errc::invalid_argument);
  EXPECT_EQ(
      checked.error().text(),
      "cannot use setting \"ranks\" of the stream: expected at most 3, one for each "
      "lane, found 4");
}

}  // namespace
}  // namespace weir::test
