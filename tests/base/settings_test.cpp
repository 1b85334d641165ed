// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests tables of settings with two made-up owners: ranges, texts of errors, words,
/// lists, included tables and rules.
#include "weir/base/settings.hpp"

#include <gtest/gtest.h>

#include "support/range_ends.hpp"

namespace weir {
namespace {

enum class colour { red, green };

/// An owner with one setting of each scalar kind.
struct brush {
  std::uint32_t width = 4;
  std::uint64_t strokes = 7;
  float pressure = 0.5F;
  bool wet = false;
  colour paint = colour::red;
};

/// An owner with texts and lists, which includes the settings of a brush.
struct picture {
  std::string title;
  std::int64_t offset = -1;
  std::vector<std::uint32_t> sizes = {3, 4};
  std::vector<std::string> frames;
  brush tool;
};

constexpr std::uint64_t endless = ~std::uint64_t{0};

/// Returns the settings of a brush, with every kind of range.
const settings_table<brush>& brush_settings() {
  static const settings_table<brush> table = [] {
    settings_table<brush> t("the brush");
    t.add("width", &brush::width, "Width").range(2, 64).multiple_of(2).unit("mm");
    t.add("strokes", &brush::strokes, "Strokes").word("endless", endless).may_change();
    t.add("pressure", &brush::pressure, "Pressure").range(0, 1);
    t.add("wet", &brush::wet, "Whether it is wet");
    t.add("paint", &brush::paint, {{"red", colour::red}, {"green", colour::green}},
          "Colour");
    return t;
  }();
  return table;
}

/// Returns the settings of a picture; "wet" of the included brush is left out.
settings_table<picture> picture_settings() {
  settings_table<picture> t("the picture");
  t.add("title", &picture::title, "Title").required();
  t.add("offset", &picture::offset, "Offset").range(-5, 5);
  t.add("sizes", &picture::sizes, "Sizes").count(2, 3).range(1, 9);
  t.add("frames", &picture::frames, "Frames").single();
  t.include("tool.", &picture::tool, brush_settings(), {"wet"});
  return t;
}

/// Returns a picture whose required setting is given, so that it is valid.
picture a_picture() {
  picture p;
  p.title = "weir";
  return p;
}

/// Returns an integer as the value of a setting.
setting_value integer(std::int64_t number) {
  return {number};
}
/// Returns a text as the value of a setting.
setting_value text(const char* words) {
  return {std::string(words)};
}
/// Returns a list as the value of a setting.
setting_value list(setting_value::list items) {
  return {std::move(items)};
}

TEST(Settings, BothEndsOfEveryRangeAreAcceptedAndTheirNeighboursRefused) {
  const auto walk = [](const auto& table, const auto& good) {
    test::walk_ranges(
        table, good,
        [&](auto& owner, const std::string& name, const setting_value& value) {
          return table.assign(owner, name, value);
        },
        [&](const auto& owner) { return table.check(owner); });
  };
  walk(brush_settings(), brush{});
  walk(picture_settings(), a_picture());
}

TEST(Settings, AWordIsNotSubjectToTheRuleOfTheNumbers) {
  settings_table<brush> table("the brush");
  table.add("strokes", &brush::strokes, "Strokes")
      .word("endless", endless)
      .rule("an even one", [](std::uint64_t strokes) { return strokes % 2 == 0; });
  brush b;
  EXPECT_FALSE(table.assign(b, "strokes", integer(3)));
  EXPECT_FALSE(table.assign(b, "strokes", text("some")));
  ASSERT_TRUE(table.assign(b, "strokes", text("endless")));
  EXPECT_EQ(b.strokes, endless);
  EXPECT_TRUE(table.check(b));
  ASSERT_TRUE(table.assign(b, "strokes", integer(4)));
  EXPECT_EQ(b.strokes, 4u);
}

TEST(Settings, ValuesReachTheirMembersAndComeBack) {
  const auto table = picture_settings();
  picture p = a_picture();
  const std::vector<std::pair<const char*, setting_value>> changes = {
      {"title", text("x")},
      {"offset", integer(-5)},
      {"sizes", list({integer(9), integer(1)})},
      {"frames", list({text("a")})},
      {"tool.width", integer(64)},
      {"tool.strokes", text("endless")},
      {"tool.pressure", setting_value{0.25}},
      {"tool.paint", text("green")}};
  for (const auto& [name, value] : changes) {
    ASSERT_TRUE(table.assign(p, name, value)) << name;
    EXPECT_EQ(table.find(name)->get(p), value) << name;
  }
  EXPECT_EQ(p.title, "x");
  EXPECT_EQ(p.offset, -5);
  EXPECT_EQ(p.sizes, (std::vector<std::uint32_t>{9, 1}));
  EXPECT_EQ(p.frames, std::vector<std::string>{"a"});
  EXPECT_EQ(p.tool.width, 64U);
  EXPECT_EQ(p.tool.strokes, endless);
  EXPECT_EQ(p.tool.pressure, 0.25F);
  EXPECT_EQ(p.tool.paint, colour::green);
}

TEST(Settings, AnIntegerIsANumberAndOneItemMayStandForAList) {
  const auto table = picture_settings();
  picture p = a_picture();
  ASSERT_TRUE(table.assign(p, "tool.pressure", integer(1)));
  EXPECT_EQ(p.tool.pressure, 1.0F);
  ASSERT_TRUE(table.assign(p, "frames", text("only")));
  EXPECT_EQ(p.frames, std::vector<std::string>{"only"});
}

TEST(Settings, SayInWordsWhatTheyExpect) {
  const auto table = picture_settings();
  const auto expected = [&](const char* name) { return table.find(name)->expected(); };
  EXPECT_EQ(expected("title"), "a string");
  EXPECT_EQ(expected("offset"), "an integer from -5 to 5");
  EXPECT_EQ(expected("sizes"), "an array of 2 to 3 integers from 1 to 9");
  EXPECT_EQ(expected("frames"), "a string or an array of strings");
  EXPECT_EQ(expected("tool.width"), "a multiple of 2 from 2 to 64");
  EXPECT_EQ(expected("tool.strokes"), "an integer from 0 to 2^63-1 or \"endless\"");
  EXPECT_EQ(expected("tool.pressure"), "a number from 0 to 1");
  EXPECT_EQ(expected("tool.paint"), "one of \"red\" \"green\"");
  EXPECT_EQ(brush_settings().find("wet")->expected(), "true or false");
}

TEST(Settings, ValuesAreDescribedWithTheirKind) {
  EXPECT_EQ(integer(7).describe(), "integer 7");
  EXPECT_EQ(setting_value{0.5}.describe(), "number 0.5");
  EXPECT_EQ(setting_value{true}.describe(), "boolean true");
  EXPECT_EQ(text("a\"b").describe(), R"(string "a\"b")");
  EXPECT_EQ(list({integer(1), text("x")}).describe(), R"(array [1, "x"])");
  EXPECT_EQ((setting_value{setting_value::foreign{"a date"}}.describe()), "a date");
  EXPECT_LT(text(std::string(1000, 'x').c_str()).describe().size(), 80U);
  EXPECT_LT((setting_value{setting_value::list(1000, integer(1))}.describe().size()),
            80U);
}

TEST(Settings, MessagesNameTheSettingItsRangeAndWhatWasFound) {
  const auto table = picture_settings();
  picture p = a_picture();
  EXPECT_EQ(table.assign(p, "tool.width", integer(65)).error().text(),
            "cannot set key \"tool.width\": expected a multiple of 2 from 2 to 64, found "
            "integer 65");
  p.tool.width = 66;
  EXPECT_EQ(table.check(p).error().text(),
            "cannot use setting \"tool.width\" of the picture: expected a multiple of 2 "
            "from 2 to 64, found integer 66");
}

TEST(Settings, UnknownNamesAreRefusedWithTheNearestOne) {
  const auto table = picture_settings();
  picture p = a_picture();
  const auto suggestion = [&](const char* name) {
    const auto set = table.assign(p, name, integer(1));
    EXPECT_EQ(set.error().code(), errc::unknown_key);
    return set.error().text().substr(set.error().text().find(';'));
  };
  EXPECT_EQ(suggestion("titel"), "; did you mean \"title\"?");
  EXPECT_EQ(suggestion("paint"), "; did you mean \"tool.paint\"?");
  EXPECT_EQ(table.assign(p, "tool.wet", {true}).error().code(), errc::unknown_key)
      << "a setting that was left out of the table is unknown";
}

TEST(Settings, RequiredOnesDifferFromTheirDefault) {
  const auto table = picture_settings();
  EXPECT_TRUE(table.check(a_picture()));
  const auto missing = table.check(picture{});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().text(),
            "cannot use setting \"title\" of the picture: expected a string, found none");
}

// A program can store 2^64-2, a configuration cannot: its integers end at 2^63-1, and
// only the word "endless" stands for 2^64-1.
TEST(Settings, NumbersThatNoConfigurationCanGiveAreRefused) {
  brush b;
  b.strokes = endless - 1;
  const auto checked = brush_settings().check(b);
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().text().find("found integer 18446744073709551614"),
            std::string::npos)
      << checked.error().text();
}

TEST(Settings, RulesHoldBesidesTheRange) {
  settings_table<picture> t("the picture");
  t.add("sizes", &picture::sizes, "Sizes")
      .range(1, 9)
      .rule("in ascending order", [](const std::vector<std::uint32_t>& sizes) {
        return std::is_sorted(sizes.begin(), sizes.end());
      });
  picture p;
  EXPECT_TRUE(t.assign(p, "sizes", list({integer(1), integer(2)})));
  const auto set = t.assign(p, "sizes", list({integer(2), integer(1)}));
  ASSERT_FALSE(set);
  EXPECT_EQ(set.error().text(),
            "cannot set key \"sizes\": expected an array of integers from 1 to 9, in "
            "ascending order, found array [2, 1]");
}

TEST(Settings, NarrowLeavesWhatBothTake) {
  auto table = picture_settings();
  table.narrow("offset", *brush_settings().find("width"));
  EXPECT_EQ(table.find("offset")->expected(), "an integer from 2 to 5");
  EXPECT_EQ(picture_settings().find("offset")->expected(), "an integer from -5 to 5");
}

}  // namespace
}  // namespace weir
