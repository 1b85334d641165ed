// SPDX-License-Identifier: Apache-2.0
/// @file
/// The stages window and reduce, against loops over the same numbers.
#include <cmath>
#include <limits>

#include "stages/basic_catalog.hpp"

namespace weir::test {
namespace {

/// A source of `count` items i32[2] before a stage.
tape_builder numbers_before(const std::string& stage, const given_settings& settings,
                            int count, const std::string& element = "i32") {
  return [=](pipeline& p, std::vector<tape>& all) {
    add_basic(p, "source", "generator",
              {{"count", count}, {"shape", list_of<int>({2})}, {"element", element}}) >>
        add_basic(p, "stage", stage, settings) >> add_recorder(p, "sink", all[0]);
  };
}

TEST(Window, HasTheItemsOfASerialLoopForEveryCountAndStep) {
  constexpr int items = 11;
  for (int count = 1; count <= 6; ++count) {
    for (int step = 1; step <= 7; ++step) {
      const auto found = run_tapes(
          numbers_before("window", {{"type", "i32[2]"}, {"count", count}, {"step", step}},
                         items),
          1);
      ASSERT_TRUE(found) << found.error().message();
      const tape& t = found->front();
      std::size_t window = 0;
      for (int first = 0; first + count <= items; first += step, ++window) {
        ASSERT_LT(window, t.size()) << count << " " << step;
        std::vector<std::int32_t> expected;
        for (int i = 0; i < 2 * count; ++i) {
          expected.push_back(2 * first + i);
        }
        EXPECT_EQ(t[window].values<std::int32_t>(), expected) << count << " " << step;
        EXPECT_EQ(t[window].seq, window);
        EXPECT_EQ(t[window].about.at("first"),
                  attribute(static_cast<std::uint64_t>(first)));
      }
      EXPECT_EQ(t.size(), window) << count << " " << step;
    }
  }
}

TEST(Window, ContinuesFromEveryCheckpoint) {
  const std::pair<int, int> forms[] = {{3, 1}, {4, 3}, {3, 3}, {2, 5}};
  for (const auto& [count, step] : forms) {
    const auto tapes = expect_resumable(
        numbers_before("window", {{"type", "i32[2]"}, {"count", count}, {"step", step}},
                       10),
        1, 1);
    EXPECT_FALSE(tapes[0].empty());
  }
}

TEST(Window, RefusesATypeWithoutFixedExtents) {
  expect_refused("window", {{"type", "f32[n]"}}, errc::invalid_argument,
                 "whose extents are numbers");
}

/// Combines numbers as the stage promises: pairs, then pairs of the results.
template <class T, class Function>
T by_tree(std::vector<T> all, Function combine) {
  while (all.size() > 1) {
    std::vector<T> next;
    for (std::size_t i = 0; i < all.size(); i += 2) {
      next.push_back(i + 1 < all.size() ? combine(all[i], all[i + 1]) : all[i]);
    }
    all = std::move(next);
  }
  return all.front();
}

TEST(Reduce, SumsConsecutiveItemsInTheOrderOfABalancedTree) {
  // Numbers of different sizes, so that another order gives other bits.
  for (const int size : {1, 2, 3, 5, 6, 7, 8, 13}) {
    const auto build = [&](pipeline& p, std::vector<tape>& all) {
      add_basic(p, "source", "generator",
                {{"count", 26}, {"shape", list_of<int>({2})}, {"kind", "philox"}}) >>
          add_basic(p, "reduce", "reduce",
                    {{"type", "f32[2]"}, {"op", "mean"}, {"size", size}}) >>
          add_recorder(p, "sink", all[0]);
    };
    const auto plain = run_tapes(
        [](pipeline& p, std::vector<tape>& all) {
          add_basic(p, "source", "generator",
                    {{"count", 26}, {"shape", list_of<int>({2})}, {"kind", "philox"}}) >>
              add_recorder(p, "sink", all[0]);
        },
        1);
    ASSERT_TRUE(plain) << plain.error().message();
    const auto tapes = expect_resumable(build, 1, 3);
    const auto length = static_cast<std::size_t>(size);
    const std::size_t groups = (26 + length - 1) / length;
    ASSERT_EQ(tapes[0].size(), groups) << size;
    for (std::size_t g = 0; g < groups; ++g) {
      for (std::size_t e = 0; e < 2; ++e) {
        std::vector<float> group;
        for (std::size_t i = g * length; i < std::min<std::size_t>(26, (g + 1) * length);
             ++i) {
          group.push_back((*plain)[0][i].values<float>()[e]);
        }
        const float sum = by_tree(group, [](float a, float b) { return a + b; });
        EXPECT_EQ(tapes[0][g].values<float>()[e], sum / static_cast<float>(group.size()))
            << size << " " << g;
      }
    }
  }
}

TEST(Reduce, CombinesTheLanesOfAnItem) {
  for (const char* op : {"sum", "min", "max"}) {
    const auto tapes = run_tapes(
        [&](pipeline& p, std::vector<tape>& all) {
          add_basic(
              p, "source", "generator",
              {{"count", 3}, {"shape", list_of<int>({5, 300})}, {"element", "i32"}}) >>
              add_basic(p, "reduce", "reduce",
                        {{"type", "i32[300]"}, {"op", op}, {"over", "lanes"}}) >>
              add_recorder(p, "sink", all[0]);
        },
        1);
    ASSERT_TRUE(tapes) << tapes.error().message();
    ASSERT_EQ((*tapes)[0].size(), 3U);
    const std::vector<std::int32_t> found = (*tapes)[0][2].values<std::int32_t>();
    ASSERT_EQ(found.size(), 300U);
    for (int i = 0; i < 300; ++i) {
      const int first = 2 * 1500 + i;
      const int expected = op == std::string("sum")   ? 5 * first + 10 * 300
                           : op == std::string("min") ? first
                                                      : first + 4 * 300;
      EXPECT_EQ(found[static_cast<std::size_t>(i)], expected) << op << " " << i;
    }
  }
}

TEST(Reduce, DropsAShorterLastGroupIfAsked) {
  const auto kept =
      run_tapes(numbers_before("reduce", {{"type", "i32[2]"}, {"size", 4}}, 10), 1);
  ASSERT_TRUE(kept);
  ASSERT_EQ((*kept)[0].size(), 3U);
  EXPECT_EQ((*kept)[0][2].values<std::int32_t>(), (std::vector<std::int32_t>{34, 36}));
  const auto dropped = run_tapes(
      numbers_before("reduce", {{"type", "i32[2]"}, {"size", 4}, {"last", "drop"}}, 10),
      1);
  ASSERT_TRUE(dropped);
  EXPECT_EQ((*dropped)[0].size(), 2U);
}

TEST(Reduce, RefusesAMeanOfIntegersAndOpenExtents) {
  expect_refused("reduce", {{"type", "i32[2]"}, {"op", "mean"}}, errc::invalid_argument,
                 "expected f32 or f64");
  expect_refused("reduce", {{"type", "f32[n]"}}, errc::invalid_argument,
                 "all of them numbers");
}

}  // namespace
}  // namespace weir::test
