// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests slots and bytes of plans against figures that were computed by hand.
#include <gtest/gtest.h>

#include "graph_builder.hpp"
#include "weir/base/bytes.hpp"

using namespace weir;
using namespace weir::flow;
using weir::test::graph_builder;

namespace {

constexpr std::int64_t mib = 1 << 20;

std::vector<std::uint32_t> slots(const plan& p) {
  std::vector<std::uint32_t> out;
  for (const planned_stage& s : p.stages) {
    out.push_back(s.slots);
  }
  return out;
}

/// Returns `read -> first -> write` with windows of 3 and 5 items of 100 bytes.
graph_builder short_chain() {
  graph_builder b;
  b.source("read", "y:f32[25]");
  b.task("first", "x:f32[25] -> y:f32[25]");
  b.sink("write", "x:f32[25]");
  b.link("read.y", "first.x").window_items = 3;
  b.link("first.y", "write.x").window_items = 5;
  return b;
}

/// Returns `short_chain()` whose second stage forwards items.
graph_builder forwarding() {
  graph_builder b = short_chain();
  b.g.stages[1].info.forwards = true;
  b.g.stages[1].info.ports[0].type = b.g.stages[1].info.ports[1].type = {};
  return b;
}

}  // namespace

TEST(Memory, AnOutletHasItsWindowAndTheItemThatIsBeingMade) {
  const plan p = or_throw(check(short_chain().g));
  EXPECT_EQ(slots(p), (std::vector<std::uint32_t>{4, 6, 1}));
  EXPECT_EQ(p.stages[0].bytes, (std::vector<std::int64_t>{4 * 128}));
  EXPECT_EQ(p.stages[1].bytes, (std::vector<std::int64_t>{0, 6 * 128}));
  EXPECT_EQ(p.stages[2].bytes, (std::vector<std::int64_t>{0}));
  EXPECT_EQ(p.memory_bound, 10 * 128);
}

TEST(Memory, AStageOutsideOfTheEngineHasItemsOfItsOwnAndSharesMemoryWithItsChild) {
  graph_builder b = short_chain();
  b.g.stages[1].host = host_kind::own;
  // Six calls and the item that is being made, beside the ten items of the run.
  EXPECT_EQ(or_throw(check(b.g)).memory_bound, (10 + 7) * 128);
  b.g.stages[1].host = host_kind::process;
  b.g.stages[1].origin.use = "test.first";
  constexpr std::int64_t records = 32 * (64 + 96 + 2048 + 128 + 96 + 2048);
  constexpr std::int64_t tensors = 3 * 128 + 6 * 128;
  EXPECT_EQ(or_throw(check(b.g)).memory_bound,
            (10 + 7) * 128 + align_up<std::int64_t>(records + tensors, 4096));
}

TEST(Memory, TheLargestWindowOfAForkDecides) {
  graph_builder b = short_chain();
  b.sink("print", "x:f32[25]");
  b.link("read.y", "print.x").window_items = 9;
  EXPECT_EQ(slots(or_throw(check(b.g)))[0], 10U);
}

TEST(Memory, AStageThatGivesSeveralItemsMakesThemTogether) {
  graph_builder b = short_chain();
  b.g.stages[0].info.gives = 3;
  EXPECT_EQ(slots(or_throw(check(b.g)))[0], 3U + 3U);
}

TEST(Memory, OpenItemsOfALateStageHaveSlots) {
  graph_builder b = short_chain();
  b.g.stages[1].info.face = face::late;
  EXPECT_EQ(slots(or_throw(check(b.g)))[1], 1U + 3U + 5U);
}

TEST(Memory, AStageThatSkipsFailedItemsHasTheSlotsOfALateStage) {
  graph_builder b = short_chain();
  b.g.stages[1].info.stateless = true;
  b.g.stages[1].on_failure = failure_policy::skip;
  EXPECT_EQ(slots(or_throw(check(b.g)))[1], 1U + 3U + 5U);
}

TEST(Memory, OpenCallsOfALateStageThatChangesTheRateHaveAllTheirItems) {
  graph_builder b = short_chain();
  b.g.stages[1].info.face = face::late;
  b.g.stages[1].info.own_numbering = true;
  b.g.stages[1].info.takes = 2;
  b.g.stages[1].info.gives = 4;
  b.g.edges[0].window_items = 7;
  EXPECT_EQ(slots(or_throw(check(b.g)))[1], 4U + 3U * 4U + 5U);
}

TEST(Memory, ItemsOfAnIncompleteCallCountBesideTheSlots) {
  graph_builder b = short_chain();
  const std::int64_t before = or_throw(check(b.g)).memory_bound;
  b.g.stages[1].info.own_numbering = true;
  b.g.stages[1].info.takes = 3;
  EXPECT_EQ(or_throw(check(b.g)).memory_bound, before + 2 * 128);
  b.g.stages[1].info.takes = 2;
  EXPECT_EQ(or_throw(check(b.g)).memory_bound, before + 128);
  for (const std::uint32_t stage : {0U, 1U}) {  // of varying size
    b.g.stages[stage].info.ports[0].type = or_throw(port_type::parse("f32[?]"));
  }
  const std::int64_t varying = or_throw(check(b.g)).memory_bound;
  b.g.stages[1].info.takes = 1;
  EXPECT_EQ(varying, or_throw(check(b.g)).memory_bound + 2 * default_window_bytes);
}

TEST(Memory, OutletsForFailedItemsHoldTheTensorsOfTheInlets) {
  graph_builder b = short_chain();
  b.g.stages[1].info.stateless = true;
  b.g.stages[1].on_failure = failure_policy::dead_letter;
  add_dead_letters(b.g.stages[1].info);
  b.sink("failed", "x:f32[25]");
  b.link("first.failed_x", "failed.x").window_items = 4;
  const plan p = or_throw(check(b.g));
  EXPECT_EQ(slots(p), (std::vector<std::uint32_t>{1 + 3 + 4, 1 + 3 + 5, 1, 1}));
  EXPECT_EQ(p.stages[1].bytes, (std::vector<std::int64_t>{0, 9 * 128, 0}));
  EXPECT_EQ(p.stages[1].types[2].text(), "f32[25]");
  EXPECT_EQ(p.memory_bound, (8 + 9) * 128);
}

TEST(Memory, SlotsCoverTheWindowsBehindAStageThatForwards) {
  graph_builder b = forwarding();
  const plan p = or_throw(check(b.g));
  EXPECT_EQ(slots(p), (std::vector<std::uint32_t>{1 + 3 + 5, 6, 1}));
  EXPECT_EQ(p.stages[1].bytes, (std::vector<std::int64_t>{0, 0}));
  EXPECT_EQ(p.memory_bound, 9 * 128);
}

TEST(Memory, SeveralStagesThatForwardAddTheirWindows) {
  graph_builder b = forwarding();
  b.task("pass", "x:any -> y:any").info.forwards = true;
  b.sink("print", "x:any");
  b.link("first.y", "pass.x").window_items = 2;
  b.link("pass.y", "print.x").window_items = 7;
  EXPECT_EQ(slots(or_throw(check(b.g)))[0], 1U + 3U + std::max(5U, 2U + 7U));
}

// A tensor may go round many times, so the edges of the cycle may hold different ones.
TEST(Memory, ACycleOfStagesThatForwardCountsEachEdge) {
  graph_builder b = forwarding();
  b.g.stages[1].info.ports.push_back({"back", {}, true});
  b.link("first.y", "first.back").delay = 1;
  b.g.edges[2].window_items = 4;
  const plan p = or_throw(check(b.g));
  EXPECT_EQ(slots(p)[0], 1U + 3U + 5U + 4U);
  EXPECT_EQ(p.memory_bound, 13 * 128 + 128);
}

TEST(Memory, BytesOfAWindowLimitItsItemsIfTheTypeIsFixed) {
  graph_builder b = short_chain();
  b.g.edges[1].window_bytes = 250;  // two items of 100 bytes
  EXPECT_EQ(slots(or_throw(check(b.g)))[1], 3U);
  b.g.edges[1].window_bytes = 99;  // one item passes alone
  EXPECT_EQ(slots(or_throw(check(b.g)))[1], 2U);
}

TEST(Memory, AnOutletOfUnknownSizeHasItsWindowAndOneItemInBytes) {
  graph_builder b;
  b.source("read", "y:u8[?] z:u8[?]");
  b.sink("write", "x:u8[?]");
  b.sink("print", "x:u8[?]");
  b.link("read.y", "write.x").window_bytes = 3 * mib;
  b.link("read.y", "print.x").window_bytes = 5 * mib;
  const plan p = or_throw(check(b.g));
  EXPECT_EQ(p.stages[0].bytes,
            (std::vector<std::int64_t>{2 * 5 * mib, default_window_bytes}));
  EXPECT_EQ(p.memory_bound, 10 * mib + default_window_bytes);
}

TEST(Memory, AnOutletWithALongestItemHasItsSlotsAlone) {
  graph_builder b;
  b.source("read", "y:f32[?,25] z:u8[?]");
  b.sink("write", "x:f32[?,25]");
  b.link("read.y", "write.x").window_items = 4;
  b.g.stages[0].info.ports[0].longest = 10;
  b.g.stages[0].info.ports[1].longest = 64;
  const plan p = or_throw(check(b.g));
  EXPECT_EQ(p.stages[0].bytes, (std::vector<std::int64_t>{(1 + 4) * 1024, (1 + 4) * 64}));
  b.g.edges[0].window_bytes = 2000;  // less than the slots
  EXPECT_EQ(or_throw(check(b.g)).stages[0].bytes[0], 2 * 2000);
}

TEST(Memory, BytesOfUnknownSizeAddUpBehindAStageThatForwards) {
  graph_builder b = forwarding();
  b.g.stages[0].info.ports[0].type = or_throw(port_type::parse("f32[?]"));
  b.g.edges[0].window_bytes = 2 * mib;
  b.g.edges[1].window_bytes = 7 * mib;
  EXPECT_EQ(or_throw(check(b.g)).memory_bound, (2 + 2 + 7) * mib);
}

TEST(Memory, ScratchHasAPieceForEachSlot) {
  graph_builder b = short_chain();
  b.g.stages[1].info.scratch = {{"sum", or_throw(port_type::parse("f64[]"))},
                                {"copy", or_throw(port_type::parse("f64[25]"))}};
  EXPECT_EQ(or_throw(check(b.g)).memory_bound, 10 * 128 + 6 * (64 + 256));
}

TEST(Memory, TheFirstItemsOfAnEdgeWithADelayAreCounted) {
  graph_builder b = short_chain();
  b.g.stages[1].info.ports.push_back(
      {"back", or_throw(port_type::parse("f32[25]")), true});
  b.link("first.y", "first.back").delay = 4;
  const plan p = or_throw(check(b.g));
  EXPECT_EQ(slots(p)[1], 1U + default_window_items);
  EXPECT_EQ(p.memory_bound, (4 + 9) * 128 + 4 * 128);
}

TEST(Memory, ItemsOfAHostThatExceed64BitsAreRefused) {
  graph_builder b;
  b.source("read", "y:u8[1]");
  flow::graph_stage& first = b.task("first", "x:u8[1] -> y:u8[1125899906842624]");
  // A call makes 2048 items of 2^50 bytes. The slots of the run have 2^62 bytes, and
  // those of the host, for 33 calls, 2^66 and 2^61.
  first.info.gives = 2048;
  first.info.own_numbering = true;
  b.sink("write", "x:u8[1125899906842624]");
  b.link("read.y", "first.x");
  b.link("first.y", "write.x");
  EXPECT_TRUE(check(b.g));
  for (const host_kind host : {host_kind::own, host_kind::process}) {
    b.g.stages[1].host = host;
    b.g.stages[1].origin.use = "test.first";
    EXPECT_EQ(
        b.refusal(),
        "cannot size the memory of the pipeline \"tested\": expected at most 2^63-1 "
        "bytes, found more");
  }
}
