// SPDX-License-Identifier: Apache-2.0
/// @file
/// The stages batch and unbatch.
#include "stages/basic_catalog.hpp"

namespace weir::test {
namespace {

/// Makes items of `f32[n]` whose length is 1 more than the number of the item.
struct growing {
  in<float, 1> x;
  out<float, 1> y;
  static void describe(stage_spec<growing>& s) {
    s.name("test.growing", "makes longer and longer items");
    s.port("x", &growing::x, "n").port("y", &growing::y, "?");
  }
  result<void> on_item(step& s) {
    WEIR_TRY(auto to, s.make(y, static_cast<std::int64_t>(s.seq()) + 1));
    s.submit(
        "grow",
        [](auto out) {
          for (std::int64_t i = 0; i < out.extent(0); ++i) {
            out[static_cast<std::size_t>(i)] = 0;
          }
        },
        write(to));
    return s.emit();
  }
};

tape_builder batched(const given_settings& settings, int count = 10) {
  return [=](pipeline& p, std::vector<tape>& all) {
    add_basic(p, "source", "generator",
              {{"count", count}, {"shape", list_of<int>({2})}, {"element", "i32"}}) >>
        add_basic(p, "batch", "batch", settings) >> add_recorder(p, "sink", all[0]);
  };
}

TEST(Batch, JoinsItemsAlongANewDimension) {
  const auto tapes = expect_resumable(batched({{"type", "i32[2]"}, {"size", 4}}), 1, 1);
  const tape& t = tapes[0];
  ASSERT_EQ(t.size(), 3U);
  EXPECT_EQ(t[1].seq, 1U);
  EXPECT_EQ(t[1].shape, (std::vector<std::int64_t>{4, 2}));
  EXPECT_EQ(t[1].values<std::int32_t>(),
            (std::vector<std::int32_t>{8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(t[2].shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(t[2].values<std::int32_t>(), (std::vector<std::int32_t>{16, 17, 18, 19}));
}

TEST(Batch, MemoryIsThatOfTheItemsAlsoIfTheLastBatchMayBeShorter) {
  const auto bound = [](const char* last) {
    std::vector<tape> all(1);
    pipeline p("test");
    batched({{"type", "i32[2]"}, {"size", 4}, {"last", last}})(p, all);
    return or_throw(p.check()).memory_bound;
  };
  EXPECT_EQ(bound("keep"), bound("drop"));
  EXPECT_LT(bound("keep"), 10'000);
}

TEST(Batch, PadsOrDropsAShorterLastBatch) {
  const auto padded =
      expect_resumable(batched({{"type", "i32[n]"}, {"size", 4}, {"last", "pad"}}), 1, 3);
  ASSERT_EQ(padded[0].size(), 3U);
  EXPECT_EQ(padded[0][2].shape, (std::vector<std::int64_t>{4, 2}));
  EXPECT_EQ(padded[0][2].values<std::int32_t>(),
            (std::vector<std::int32_t>{16, 17, 18, 19, 0, 0, 0, 0}));
  EXPECT_EQ(padded[0][2].about.at("items"), attribute(std::uint64_t{2}));
  EXPECT_EQ(padded[0][1].about.at("items"), attribute(std::uint64_t{4}));
  const auto dropped = expect_resumable(
      batched({{"type", "i32[2]"}, {"size", 4}, {"last", "drop"}}), 1, 2);
  EXPECT_EQ(dropped[0].size(), 2U);
}

TEST(Batch, RefusesItemsOfDifferentShapes) {
  const auto tapes = run_tapes(
      [](pipeline& p, std::vector<tape>& all) {
        add_basic(p, "source", "generator", {{"count", 4}}) >> p.add<growing>("grow") >>
            add_basic(p, "batch", "batch", {{"type", "f32[?]"}}) >>
            add_recorder(p, "sink", all[0]);
      },
      1);
  ASSERT_FALSE(tapes);
  EXPECT_NE(tapes.error().message().find("expected the shape [1]"), std::string::npos)
      << tapes.error().message();
}

TEST(Unbatch, DividesABatchIntoItsItems) {
  for (const char* last : {"keep", "pad"}) {
    const given_settings settings = {{"type", "i32[2]"}, {"size", 4}};
    given_settings with_last = settings;
    with_last.emplace("last", last);
    const auto tapes = expect_resumable(
        [&](pipeline& p, std::vector<tape>& all) {
          auto source = add_basic(
              p, "source", "generator",
              {{"count", 10}, {"shape", list_of<int>({2})}, {"element", "i32"}});
          source >> add_basic(p, "batch", "batch", with_last) >>
              add_basic(p, "unbatch", "unbatch", settings) >>
              add_recorder(p, "sink", all[0]);
          source >> add_recorder(p, "plain", all[1]);
        },
        2, 3);
    EXPECT_EQ(tapes[0], tapes[1]) << last;
  }
}

TEST(Unbatch, RefusesBatchesThatAreTooLarge) {
  const auto tapes = run_tapes(
      [](pipeline& p, std::vector<tape>& all) {
        add_basic(p, "source", "generator", {{"shape", list_of<int>({3, 2})}}) >>
            add_basic(p, "unbatch", "unbatch", {{"type", "f32[2]"}, {"size", 2}}) >>
            add_recorder(p, "sink", all[0]);
      },
      1);
  ASSERT_FALSE(tapes);
  EXPECT_EQ(tapes.error().root().code(), errc::out_of_range);
  EXPECT_NE(tapes.error().message().find("expected at most 2 items, found 3"),
            std::string::npos)
      << tapes.error().message();
}

TEST(Batch, RefusesSettingsOutsideOfTheirRanges) {
  for (const char* stage : {"batch", "unbatch"}) {
    expect_refused(stage, {}, errc::invalid_argument, "type");
    expect_refused(stage, {{"type", "any"}}, errc::invalid_argument, "element type");
    expect_refused(stage, {{"type", "f32[n]"}, {"size", 0}}, errc::invalid_argument,
                   "size");
  }
  expect_refused("batch", {{"type", "f32[n]"}, {"last", "cut"}}, errc::invalid_argument,
                 "last");
}

}  // namespace
}  // namespace weir::test
