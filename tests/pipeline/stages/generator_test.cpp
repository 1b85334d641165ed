// SPDX-License-Identifier: Apache-2.0
/// @file
/// The generator, the null sink, and concat.
#include "stages/basic_catalog.hpp"
#include "stages/stage_text.hpp"
#include "weir/base/philox.hpp"

namespace weir::test {
namespace {

tape items_of(const given_settings& settings) {
  auto all = run_tapes(
      [&](pipeline& p, std::vector<tape>& tapes) {
        add_basic(p, "source", "generator", settings) >>
            add_recorder(p, "sink", tapes[0]);
      },
      1);
  EXPECT_TRUE(all) << all.error().message();
  return all ? std::move((*all)[0]) : tape();
}

TEST(Generator, CountsOnFromItemToItem) {
  const tape t =
      items_of({{"count", 3}, {"shape", list_of<int>({2, 2})}, {"element", "u16"}});
  ASSERT_EQ(t.size(), 3U);
  EXPECT_EQ(t[0].shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(t[0].values<std::uint16_t>(), (std::vector<std::uint16_t>{0, 1, 2, 3}));
  EXPECT_EQ(t[2].values<std::uint16_t>(), (std::vector<std::uint16_t>{8, 9, 10, 11}));
}

TEST(Generator, TakesIndicesModuloTheRangeOfSmallTypes) {
  const tape t =
      items_of({{"count", 1}, {"shape", list_of<int>({300})}, {"element", "u8"}});
  EXPECT_EQ(t[0].values<std::uint8_t>()[299], 299 % 256);
}

TEST(Generator, MakesScalars) {
  const tape t =
      items_of({{"count", 2}, {"shape", list_of<int>({})}, {"element", "f64"}});
  ASSERT_EQ(t.size(), 2U);
  EXPECT_TRUE(t[1].shape.empty());
  EXPECT_EQ(t[1].values<double>(), std::vector<double>{1.0});
}

TEST(Generator, MakesRandomNumbersOfSeedAndNumber) {
  const given_settings settings = {{"count", 5},
                                   {"shape", list_of<int>({4})},
                                   {"element", "f32"},
                                   {"kind", "philox"},
                                   {"seed", 9}};
  const tape t = items_of(settings);
  EXPECT_EQ(t, items_of(settings));
  for (std::uint64_t n = 0; n < 5; ++n) {
    for (std::uint64_t i = 0; i < 4; ++i) {
      EXPECT_EQ(t[n].values<float>()[i], philox(9, n).uniform(i));
    }
  }
}

TEST(Generator, MakesAllTypesOfNumbers) {
  for (const char* type :
       {"f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"}) {
    for (const char* kind : {"index", "philox"}) {
      const tape t = items_of({{"count", 2}, {"element", type}, {"kind", kind}});
      ASSERT_EQ(t.size(), 2U) << type;
      EXPECT_EQ(flow::port_text(t[1].type), type);
    }
  }
}

TEST(Generator, ContinuesFromEveryCheckpoint) {
  expect_resumable(
      [](pipeline& p, std::vector<tape>& tapes) {
        add_basic(p, "source", "generator", {{"count", 20}, {"kind", "philox"}}) >>
            add_recorder(p, "sink", tapes[0]);
      },
      1, 3);
}

TEST(Generator, RefusesACursorBehindItsCount) {
  auto made = basic_stages().make("generator", {{"count", 4}});
  ASSERT_TRUE(made);
  const std::uint64_t five = 5;
  auto moved = made->object->seek(std::as_bytes(std::span(&five, 1)));
  ASSERT_FALSE(moved);
  EXPECT_EQ(moved.error().code(), errc::position_out_of_bounds);
  moved = made->object->seek(bytes_view(std::as_bytes(std::span(&five, 1))).first(3));
  ASSERT_FALSE(moved);
  EXPECT_EQ(moved.error().code(), errc::corrupt);
}

TEST(Generator, RefusesSettingsOutsideOfTheirRanges) {
  expect_refused("generator", {{"count", -1}}, errc::invalid_argument, "count");
  expect_refused("generator", {{"element", "bool"}}, errc::invalid_argument,
                 "one of f32");
  expect_refused("generator", {{"shape", list_of<int>({-2})}}, errc::invalid_argument,
                 "shape");
  expect_refused("generator", {{"kind", "clock"}}, errc::invalid_argument, "philox");
  expect_refused("generator", {{"cuont", 3}}, errc::unknown_key, "count");
}

TEST(NullSink, TakesItemsOfAnyTypeAndCountsThem) {
  for (const char* type : {"u8", "f64"}) {
    memory_store store;
    flow::here_options options;
    options.store = &store;
    pipeline p("null");
    add_basic(p, "source", "generator", {{"count", 7}, {"element", type}}) >>
        add_basic(p, "sink", "null");
    ASSERT_TRUE(flow::run_here(p, options));
    const auto* offset = store.images.back().find("OFFSET/sink");
    ASSERT_NE(offset, nullptr);
    EXPECT_EQ(load_le<std::uint64_t>(offset->data.data()), 7U);
  }
}

TEST(Concat, ReadsSourcesOneAfterAnother) {
  const auto tapes = expect_resumable(
      [](pipeline& p, std::vector<tape>& all) {
        add_basic(
            p, "source", "concat",
            {{"parts", list_of<std::string>({"generator count=4", "generator count=0",
                                             "generator count=3 kind=philox",
                                             "generator count=4"})}}) >>
            add_recorder(p, "sink", all[0]);
      },
      1, 1);
  const tape& t = tapes[0];
  ASSERT_EQ(t.size(), 11U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(t[i].seq, i);
    EXPECT_EQ(t[i].data, t[i + 7].data) << "the same source read twice";
  }
  EXPECT_EQ(t[10].seq, 10U);
  EXPECT_EQ(t[5].values<float>()[0], philox(1, 1).uniform(0));
}

TEST(Concat, RefusesPartsThatDoNotFit) {
  const auto refuse = [](std::vector<std::string> parts, errc code,
                         const std::string& text) {
    expect_refused("concat", {{"parts", list_of(parts)}}, code, text);
  };
  refuse({"generator", "generator element=f64"}, errc::invalid_argument,
         "x of f32[1], found x of f64[1] at source 1");
  refuse({"merge"}, errc::invalid_argument, "found the stage merge");
  refuse({"generater"}, errc::unknown_key, "generator");
  refuse({"generator count=x"}, errc::invalid_argument, "count");
  refuse({"generator count"}, errc::invalid_argument, "name=value");
  refuse({""}, errc::invalid_argument, "name of a stage");
  refuse({"generator", "mix parts=generator"}, errc::invalid_argument,
         "found the state \"CURSORS\" of mix");
  refuse({"concat parts=generator"}, errc::invalid_argument, "that are no concat");
  expect_refused("mix", {{"parts", "mix parts=generator"}}, errc::invalid_argument,
                 "found the state \"CURSORS\" of mix");
  expect_refused("concat", {}, errc::invalid_argument, "parts");
}

TEST(StageText, ReadsValuesOfAllKinds) {
  const auto text = flow::parse_stage_text(
      R"( tgm.read  path="a b.tgm" index=-1 rate=0.5 on=true name="7" )");
  ASSERT_TRUE(text) << text.error().message();
  EXPECT_EQ(text->name, "tgm.read");
  const auto value = [&](const char* key) {
    return text->settings.find(key)->second.value;
  };
  EXPECT_EQ(value("path"), setting_value{std::string("a b.tgm")});
  EXPECT_EQ(value("index"), setting_value{std::int64_t{-1}});
  EXPECT_EQ(value("rate"), setting_value{0.5});
  EXPECT_EQ(value("on"), setting_value{true});
  EXPECT_EQ(value("name"), setting_value{std::string("7")});
  EXPECT_FALSE(flow::parse_stage_text("a b=\"c"));
  EXPECT_FALSE(flow::parse_stage_text("a b="));
  const auto joined = flow::parse_stage_text("a b=\"c\"d=1");
  ASSERT_FALSE(joined);
  EXPECT_NE(joined.error().message().find("expected a blank behind"), std::string::npos);
  EXPECT_EQ(flow::parse_stage_text("a b=1 b=2").error().code(), errc::already_exists);
}

}  // namespace
}  // namespace weir::test
