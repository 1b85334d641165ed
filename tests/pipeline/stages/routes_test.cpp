// SPDX-License-Identifier: Apache-2.0
/// @file
/// The stages that route items: select, merge and zip.
#include "stages/basic_catalog.hpp"

namespace weir::test {
namespace {

/// Hands items on and gives each an attribute: its kind is "a", "b" or absent.
struct labelled {
  in<float, 1> x;
  out<float, 1> y;
  static void describe(stage_spec<labelled>& s) {
    s.name("test.labelled", "labels items").forwards();
    s.port("x", &labelled::x, "n").port("y", &labelled::y, "n");
  }
  result<void> on_item(step& s) {
    if (s.seq() % 3 != 2) {
      s.emitted()["kind"] = std::string(s.seq() % 3 == 0 ? "a" : "b");
    }
    s.emitted()["code"] = std::int64_t{-1} * static_cast<std::int64_t>(s.seq() % 3);
    s.forward(x, y);
    return s.emit();
  }
};

std::vector<std::uint64_t> numbers_of(const tape& t) {
  std::vector<std::uint64_t> all;
  for (const recorded& one : t) {
    all.push_back(one.seq);
  }
  return all;
}
using number_list = std::vector<std::uint64_t>;

TEST(Select, DividesItemsByTheirNumbers) {
  const auto tapes = expect_resumable(
      [](pipeline& p, std::vector<tape>& all) {
        auto select = add_basic(p, "select", "select", {{"modulo", 3}});
        add_basic(p, "source", "generator", {{"count", 10}}) >> select;
        for (std::size_t i = 0; i < 3; ++i) {
          select["y" + std::to_string(i)] >>
              add_recorder(p, "sink" + std::to_string(i), all[i]);
        }
      },
      3, 2);
  EXPECT_EQ(numbers_of(tapes[0]), (number_list{0, 3, 6, 9}));
  EXPECT_EQ(numbers_of(tapes[1]), (number_list{1, 4, 7}));
  EXPECT_EQ(numbers_of(tapes[2]), (number_list{2, 5, 8}));
}

TEST(Select, DividesItemsByAnAttribute) {
  const auto tapes = expect_resumable(
      [](pipeline& p, std::vector<tape>& all) {
        auto select = add_basic(
            p, "select", "select",
            {{"attribute", "kind"}, {"values", list_of<std::string>({"b", "a"})}});
        add_basic(p, "source", "generator", {{"count", 8}}) >> p.add<labelled>("label") >>
            select;
        select["y0"] >> add_recorder(p, "b", all[0]);
        select["y1"] >> add_recorder(p, "a", all[1]);
        select["rest"] >> add_recorder(p, "rest", all[2]);
      },
      3, 3);
  EXPECT_EQ(numbers_of(tapes[0]), (number_list{1, 4, 7}));
  EXPECT_EQ(numbers_of(tapes[1]), (number_list{0, 3, 6}));
  EXPECT_EQ(numbers_of(tapes[2]), (number_list{2, 5}));
}

TEST(Select, ComparesNumbersAsText) {
  const auto tapes = run_tapes(
      [](pipeline& p, std::vector<tape>& all) {
        auto select =
            add_basic(p, "select", "select", {{"attribute", "code"}, {"values", "-2"}});
        add_basic(p, "source", "generator", {{"count", 7}}) >> p.add<labelled>("label") >>
            select;
        select["y0"] >> add_recorder(p, "sink", all[0]);
      },
      1);
  ASSERT_TRUE(tapes) << tapes.error().message();
  EXPECT_EQ(numbers_of((*tapes)[0]), (number_list{2, 5}));
}

TEST(Select, RefusesSettingsThatChooseNothingOrTwice) {
  expect_refused("select", {}, errc::invalid_argument, "expected modulo");
  expect_refused("select", {{"attribute", "kind"}}, errc::invalid_argument, "values");
  expect_refused("select", {{"modulo", 2}, {"attribute", "kind"}}, errc::invalid_argument,
                 "kind");
  expect_refused("select", {{"modulo", 9}}, errc::invalid_argument, "modulo");
}

TEST(Merge, TakesTheInletThatHasTheNumber) {
  const auto tapes = expect_resumable(
      [](pipeline& p, std::vector<tape>& all) {
        auto source = add_basic(p, "source", "generator", {{"count", 11}});
        auto select = add_basic(p, "select", "select", {{"modulo", 4}});
        auto merge = add_basic(p, "merge", "merge", {{"count", 3}});
        auto negate =
            add_basic(p, "negate", "elementwise", {{"op", "negate"}, {"type", "f32[n]"}});
        source >> select;
        select["y0"] >> merge["c"];
        select["y1"] >> negate >> merge["a"];
        select["y3"] >> merge["b"];
        merge >> add_recorder(p, "sink", all[0]);
      },
      1, 2);
  const tape& t = tapes[0];
  EXPECT_EQ(numbers_of(t), (number_list{0, 1, 3, 4, 5, 7, 8, 9}));
  EXPECT_EQ(t[0].values<float>()[0], 0.0F);
  EXPECT_EQ(t[1].values<float>()[0], -1.0F);
  EXPECT_EQ(t[5].values<float>()[0], 7.0F);
}

TEST(Merge, RefusesTwoItemsOfOneNumber) {
  const auto tapes = run_tapes(
      [](pipeline& p, std::vector<tape>& all) {
        auto source = add_basic(p, "source", "generator", {{"count", 4}});
        auto merge = add_basic(p, "merge", "merge");
        source >> merge["a"];
        source >> merge["b"];
        merge >> add_recorder(p, "sink", all[0]);
      },
      1);
  ASSERT_FALSE(tapes);
  EXPECT_NE(tapes.error().message().find("found it at \"a\" and \"b\""),
            std::string::npos)
      << tapes.error().message();
  expect_refused("merge", {{"count", 1}}, errc::invalid_argument, "count");
  expect_refused("merge", {{"count", 9}}, errc::invalid_argument, "count");
}

/// Joins branches of two types, of which the second lacks every odd number.
void build_zip(pipeline& p, std::vector<tape>& all, const char* gaps) {
  auto source = add_basic(p, "source", "generator", {{"count", 6}});
  auto convert = add_basic(p, "convert", "elementwise",
                           {{"op", "convert"}, {"type", "f32[n]"}, {"to", "i32"}});
  auto select = add_basic(p, "select", "select", {{"modulo", 2}});
  auto zip = add_basic(p, "zip", "zip",
                       {{"first", "f32[n]"}, {"second", "i32[n]"}, {"gaps", gaps}});
  source >> zip["first"];
  source >> convert >> select;
  select["y0"] >> zip["second"];
  zip["a"] >> add_recorder(p, "a", all[0]);
  zip["b"] >> add_recorder(p, "b", all[1]);
}

TEST(Zip, JoinsBranchesByNumber) {
  const auto skip = expect_resumable(
      [](pipeline& p, std::vector<tape>& all) { build_zip(p, all, "skip"); }, 2, 1);
  EXPECT_EQ(numbers_of(skip[0]), (number_list{0, 2, 4}));
  EXPECT_EQ(numbers_of(skip[1]), (number_list{0, 2, 4}));
  EXPECT_EQ(skip[1][2].values<std::int32_t>()[0], 4);
  const auto pass = expect_resumable(
      [](pipeline& p, std::vector<tape>& all) { build_zip(p, all, "pass"); }, 2, 1);
  EXPECT_EQ(numbers_of(pass[0]), (number_list{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(numbers_of(pass[1]), (number_list{0, 2, 4}));
}

TEST(Zip, RefusesTextsThatAreNoTypes) {
  expect_refused("zip", {{"first", "f31[n]"}}, errc::invalid_argument, "first");
}

}  // namespace
}  // namespace weir::test
