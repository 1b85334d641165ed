// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the order of the stages and the windows: a run ends with the planned windows,
/// and stalls in the examples with a smaller one.
#include <gtest/gtest.h>

#include <algorithm>

#include "graph_builder.hpp"
#include "random_graph.hpp"
#include "support/case_count.hpp"
#include "token_game.hpp"

using namespace weir;
using namespace weir::flow;
using weir::test::graph_builder;
using weir::test::token_game;

namespace {

constexpr std::int64_t run_items = 100;

void set_windows(graph& g, std::uint32_t items) {
  for (graph_edge& e : g.edges) {
    e.window_items = items;
  }
}

/// Returns the names of the stages that wait when a run can go on no more; empty if the
/// run has ended.
std::string stalled(const graph& g) {
  token_game game(g, run_items, true, 1);
  return game.play() ? "" : game.waiting();
}

/// Checks that an edge is given a window, and that the run stalls with one item less.
void expect_least_window(graph_builder b, std::size_t edge, std::uint32_t items,
                         const std::string& waiting) {
  set_windows(b.g, 1);
  plan p = or_throw(check(b.g));
  EXPECT_EQ(p.source.edges[edge].window_items, items);
  EXPECT_EQ(stalled(p.source), "");
  --p.source.edges[edge].window_items;
  EXPECT_EQ(stalled(p.source), waiting);
}

/// Returns a source whose items reach `join` directly, and through `hold`.
graph_builder fork_and_join(std::uint32_t holds) {
  graph_builder b;
  b.source("read", "y:f32[4]");
  b.task("hold", "x:f32[4] -> y:f32[4]").info.holds = holds;
  b.task("join", "x:f32[4] z:f32[4] -> y:f32[4]");
  b.sink("write", "x:f32[4]");
  b.link("read.y", "hold.x");
  b.link("read.y", "join.z");
  b.link("hold.y", "join.x");
  b.link("join.y", "write.x");
  return b;
}

/// Returns a loop of `sum` and `scale`, which hold items, with a delay.
graph_builder loop(std::uint32_t holds, std::uint32_t delay) {
  graph_builder b;
  b.source("read", "y:f32[4]");
  b.task("sum", "x:f32[4] back:f32[4] -> y:f32[4]").info.holds = holds / 2;
  b.task("scale", "x:f32[4] -> y:f32[4]").info.holds = holds - holds / 2;
  b.sink("write", "x:f32[4]");
  b.link("read.y", "sum.x");
  b.link("sum.y", "scale.x");
  b.link("scale.y", "write.x");
  b.link("scale.y", "sum.back").delay = delay;
  b.g.edges.back().place = "pipe.toml:21";
  return b;
}

}  // namespace

TEST(Windows, AnEdgeThatIsLargeEnoughKeepsItsWindow) {
  graph_builder b = fork_and_join(3);
  set_windows(b.g, 7);
  const plan p = or_throw(check(b.g));
  EXPECT_TRUE(p.notes.empty());
  for (const graph_edge& e : p.source.edges) {
    EXPECT_EQ(e.window_items, 7U);
    EXPECT_EQ(e.window_bytes, default_window_bytes);
  }
}

TEST(Windows, ANoteNamesTheEdgeAndTheReason) {
  graph_builder b = fork_and_join(3);
  set_windows(b.g, 2);
  EXPECT_EQ(or_throw(check(b.g)).notes,
            (std::vector<std::string>{"edge \"read.y\" -> \"hold.x\": window of 2 items "
                                      "enlarged to 4, because \"hold\" "
                                      "keeps back 3 items",
                                      "edge \"read.y\" -> \"join.z\": window of 2 items "
                                      "enlarged to 4, because the items "
                                      "of \"join.x\" come 3 items later"}));
}

TEST(Windows, TheShortBranchOfAJoinKeepsWhatTheOtherBranchHolds) {
  expect_least_window(fork_and_join(3), 1, 4, "read hold join write");
}

TEST(Windows, AStageThatHoldsItemsKeepsThemOnItsInlet) {
  expect_least_window(fork_and_join(3), 0, 4, "read hold join write");
}

TEST(Windows, AStageThatTakesSeveralItemsNeedsThemAtTheSameTime) {
  graph_builder b;
  b.source("read", "y:f32[4]");
  b.sink("write", "x:f32[4]").info.takes = 3;
  b.link("read.y", "write.x");
  expect_least_window(b, 0, 3, "read write");
}

TEST(Windows, AStageThatGivesSeveralItemsNeedsCreditsForAll) {
  graph_builder b;
  b.source("read", "y:f32[4]").info.gives = 3;
  b.sink("write", "x:f32[4]");
  b.link("read.y", "write.x");
  expect_least_window(b, 0, 3, "read write");
}

TEST(Windows, ASourceHasNoLagEvenIfItsDescriptionHoldsItems) {
  graph_builder b;
  b.source("left", "y:f32[4]").info.holds = 3;
  b.source("right", "y:f32[4]");
  b.sink("write", "x:f32[4] z:f32[4]");
  b.link("left.y", "write.x");
  b.link("right.y", "write.z");
  set_windows(b.g, 1);
  EXPECT_TRUE(or_throw(check(b.g)).notes.empty());
}

// With 2 items that wait for a third, 3 credits would leave 1 for the 2 items that the
// source gives.
TEST(Windows, RatesThatDoNotDivideEachOtherNeedMoreThanTheLargerOne) {
  graph_builder b;
  b.source("read", "y:f32[4]").info.gives = 2;
  b.sink("write", "x:f32[4]").info.takes = 3;
  b.link("read.y", "write.x");
  expect_least_window(b, 0, 4, "read write");
  EXPECT_EQ(check(b.g)->notes.size(), 0U);
  set_windows(b.g, 1);
  EXPECT_EQ(
      check(b.g)->notes,
      (std::vector<std::string>{
          "edge \"read.y\" -> \"write.x\": window of 1 item enlarged to 4, because "
          "\"read\" gives 2 items at a time and \"write\" takes 3 items at a time"}));
}

TEST(Windows, ItemsThatAreGivenTogetherNeedCreditsBesideTheLag) {
  graph_builder b = fork_and_join(2);
  b.g.stages[0].info.gives = 3;
  expect_least_window(b, 1, 5, "read hold join write");
}

TEST(Windows, AnEdgeWithADelayHasItsFirstItemsAndOneMore) {
  graph_builder b;
  b.source("read", "y:f32[4]");
  b.sink("differences", "x:f32[4] previous:f32[4]");
  b.link("read.y", "differences.x");
  b.link("read.y", "differences.previous").delay = 2;
  expect_least_window(b, 1, 3, "read differences");
}

TEST(Windows, ALoopMayHoldFewerItemsThanItsDelay) {
  for (std::uint32_t holds = 0; holds < 4; ++holds) {
    for (std::uint32_t delay = holds + 1; delay < 6; ++delay) {
      const plan p = or_throw(check(loop(holds, delay).g));
      EXPECT_EQ(stalled(p.source), "") << holds << " " << delay;
    }
  }
}

TEST(Windows, ALoopThatHoldsAsManyItemsAsItsDelayWaitsForItself) {
  EXPECT_EQ(
      loop(2, 2).refusal(),
      "loop \"sum\" -> \"scale\" -> \"sum\" waits for itself: expected stages that "
      "keep back fewer items than its delay of 2, found 2 items kept back; give the "
      "loop a delay of 3 items or more\n  at pipe.toml:21");
  for (std::uint32_t holds = 1; holds < 5; ++holds) {
    for (std::uint32_t delay = 1; delay <= holds; ++delay) {
      graph_builder b = loop(holds, delay);
      EXPECT_FALSE(check(b.g).has_value());
      set_windows(b.g, 4096);
      EXPECT_EQ(stalled(b.g), "sum scale write") << holds << " " << delay;
    }
  }
}

// Item n of each stage waits for item n - 1 of the other one, which waits for item n - 2.
TEST(Windows, DelaysOfALoopAddUp) {
  graph_builder b;
  b.source("read", "y:f32[4]");
  b.task("left", "x:f32[4] z:f32[4] -> y:f32[4]").info.holds = 1;
  b.task("right", "x:f32[4] z:f32[4] -> y:f32[4]");
  b.link("read.y", "left.x");
  b.link("read.y", "right.x");
  b.link("left.y", "right.z").delay = 1;
  b.link("right.y", "left.z").delay = 1;
  EXPECT_EQ(stalled(or_throw(check(b.g)).source), "");
  b.g.stages[2].info.holds = 1;
  EXPECT_EQ(
      b.refusal(),
      "loop \"left\" -> \"right\" -> \"left\" waits for itself: expected stages that "
      "keep back fewer items than its delay of 2, found 2 items kept back; give the "
      "loop a delay of 3 items or more");
  set_windows(b.g, 4096);
  EXPECT_EQ(stalled(b.g), "left right");
}

TEST(Windows, AWindowOfMoreThan4096ItemsIsRefused) {
  graph_builder b = fork_and_join(4095);
  EXPECT_EQ(check(b.g)->source.edges[1].window_items, 4096U);
  b.g.stages[0].info.gives = 2;
  EXPECT_EQ(
      b.refusal(),
      "cannot use the edge \"read.y\" -> \"hold.x\": expected a window of at most 4096 "
      "items to suffice, found that it needs 4097, because \"read\" gives 2 items at a "
      "time and \"hold\" keeps back 4095 items");
}

TEST(Windows, BytesAreEnlargedWhereSeveralItemsMustFit) {
  graph_builder b = fork_and_join(3);
  for (graph_edge& e : b.g.edges) {
    e.window_bytes = 20;  // an item has 16
  }
  const plan p = or_throw(check(b.g));
  EXPECT_EQ(p.source.edges[0].window_bytes, 64);
  EXPECT_EQ(p.source.edges[1].window_bytes, 64);
  EXPECT_EQ(p.source.edges[2].window_bytes, 20);
  EXPECT_EQ(p.notes.back(),
            "edge \"read.y\" -> \"join.z\": window of 20 bytes enlarged to 64, because 4 "
            "items of 16 bytes must fit");
}

TEST(Order, StagesStandBehindTheStagesThatFeedThem) {
  graph_builder b;
  b.sink("write", "x:f32[4]");
  b.task("late", "x:f32[4] -> y:f32[4]");
  b.source("read", "y:f32[4]");
  b.sink("print", "x:f32[4]");
  b.link("read.y", "late.x");
  b.link("late.y", "write.x");
  b.link("read.y", "print.x");
  EXPECT_EQ(check(b.g)->order, (std::vector<std::uint32_t>{2, 1, 0, 3}));
}

TEST(Windows, EachRandomGraphThatIsAcceptedRunsToItsEnd) {
  const std::uint64_t seed = std::random_device{}();
  int accepted = 0;
  int refused = 0;
  int enlarged = 0;
  const auto rounds = static_cast<int>(weir::test::case_count("WEIR_TEST_GRAPHS", 4000));
  for (std::uint64_t round = 0; round < static_cast<std::uint64_t>(rounds); ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round));
    const graph_builder b = test::random_graph(seed + round);
    const auto p = check(b.g);
    if (!p) {
      ASSERT_NE(p.error().text().find("waits for itself"), std::string::npos)
          << p.error().message();
      graph wide = b.g;
      set_windows(wide, 4096);
      ASSERT_NE(stalled(wide), "") << p.error().message();
      ++refused;
      continue;
    }
    ++accepted;
    enlarged += p->notes.empty() ? 0 : 1;
    for (const bool full : {true, false}) {
      token_game game(p->source, static_cast<std::int64_t>(round % 60), full, seed);
      ASSERT_TRUE(game.play()) << game.waiting() << "\n" << describe(*p);
      for (std::size_t s = 0; s < p->stages.size(); ++s) {
        ASSERT_LE(game.max_alive(s), p->stages[s].slots) << b.g.stages[s].name << "\n"
                                                         << describe(*p);
      }
    }
    std::vector<std::size_t> position(p->order.size());
    for (std::size_t i = 0; i < p->order.size(); ++i) {
      position[p->order[i]] = i;
    }
    for (const graph_edge& e : p->source.edges) {
      ASSERT_TRUE(e.delay > 0 || position[e.from] < position[e.to]);
    }
  }
  EXPECT_GT(accepted, rounds / 2);
  EXPECT_GT(enlarged, rounds / 4);
  EXPECT_GE(refused, rounds / 200);
}
