// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the messages with which the check refuses a graph.
#include <gtest/gtest.h>

#include "graph_builder.hpp"

using namespace weir;
using namespace weir::flow;
using weir::test::graph_builder;

namespace {

/// Returns `read -> first -> write`, which the check accepts.
graph_builder chain() {
  graph_builder b;
  b.source("read", "y:f32[n,256]").place = "pipe.toml:3";
  b.task("first", "x:f32[n,k] -> y:f32[n,k]").place = "pipe.toml:7";
  b.sink("write", "x:f32[n,256]").place = "pipe.toml:11";
  b.link("read.y", "first.x").place = "pipe.toml:9";
  b.link("first.y", "write.x").place = "pipe.toml:13";
  return b;
}

errc code_of(const graph_builder& b) {
  const auto p = check(b.g);
  return p ? errc::internal : p.error().code();
}

}  // namespace

TEST(Refusal, AChainIsAccepted) {
  EXPECT_EQ(chain().refusal(), "accepted");
}

TEST(Refusal, NamesOfStages) {
  const std::string expected =
      "expected a name of 1 to 64 letters, digits, \"_\", \"-\" or \".\", found ";
  graph_builder b = chain();
  b.g.stages[1].name = "fi rst";
  EXPECT_EQ(b.refusal(), "cannot use the stage \"fi rst\" (demo.first): " + expected +
                             "\" \"\n  at pipe.toml:7");
  b.g.stages[1].name = "";
  EXPECT_EQ(b.refusal(), "cannot use the stage \"\" (demo.first): " + expected +
                             "no character\n  at pipe.toml:7");
  const std::string longest(64, 'a');
  b.g.stages[1].name = longest + "b";
  EXPECT_EQ(b.refusal(), "cannot use the stage \"" + longest + "b\" (demo.first): " +
                             expected + "65 bytes\n  at pipe.toml:7");
  b.g.stages[1].name = longest;
  EXPECT_EQ(b.refusal(), "accepted");
  b.g.stages[1].name = "A-z_0.9";
  EXPECT_EQ(b.refusal(), "accepted");
}

TEST(Refusal, TwoStagesOfOneName) {
  graph_builder b = chain();
  b.g.stages[1].name = "read";
  EXPECT_EQ(
      b.refusal(),
      "cannot add the stage \"read\": expected a unique name, found a stage with this "
      "name; it is defined at pipe.toml:3\n  at pipe.toml:7");
  EXPECT_EQ(code_of(b), errc::invalid_argument);
}

TEST(Refusal, NamesOfPorts) {
  graph_builder b = chain();
  b.g.stages[1].info.ports[1].name = "y.z";
  EXPECT_EQ(
      b.refusal(),
      "cannot use the stage \"first\" (demo.first): expected names of ports with 1 to "
      "64 letters, digits, \"_\" or \"-\", found \".\" in \"y.z\"\n  at pipe.toml:7");
  b.g.stages[1].info.ports[1].name = "x";
  EXPECT_EQ(
      b.refusal(),
      "cannot use the stage \"first\" (demo.first): expected unique names of ports, "
      "found two ports \"x\"\n  at pipe.toml:7");
  EXPECT_EQ(code_of(b), errc::invalid_argument);
}

TEST(Refusal, SourcesAndSinksWithPortsOfTheWrongDirection) {
  graph_builder b = chain();
  b.g.stages[1].info.face = face::source;
  EXPECT_EQ(
      b.refusal(),
      "cannot use the stage \"first\" (demo.first): expected a source without inlets, "
      "found 1 inlet\n  at pipe.toml:7");
  b.g.stages[1].info.face = face::sink;
  EXPECT_EQ(
      b.refusal(),
      "cannot use the stage \"first\" (demo.first): expected a sink without outlets, "
      "found 1 outlet\n  at pipe.toml:7");
  b.g.stages[1].info.ports.erase(b.g.stages[1].info.ports.begin());
  EXPECT_EQ(
      b.refusal(),
      "cannot use the stage \"first\" (demo.first): expected at least 1 inlet, found 0 "
      "inlets\n  at pipe.toml:7");
  b.g.stages[1].info.ports.clear();
  b.g.stages[1].info.face = face::source;
  EXPECT_EQ(
      b.refusal(),
      "cannot use the stage \"first\" (demo.first): expected a source with an outlet, "
      "found 0 outlets\n  at pipe.toml:7");
}

TEST(Refusal, MoreThanEightPorts) {
  graph_builder b = chain();
  std::vector<port_info>& ports = b.g.stages[1].info.ports;
  for (int i = 0; i < 8; ++i) {
    ports.push_back({"more" + std::to_string(i), {}, false});
  }
  EXPECT_EQ(
      b.refusal(),
      "cannot use the stage \"first\" (demo.first): expected at most 8 outlets, found "
      "9 outlets\n  at pipe.toml:7");
  for (std::size_t i = 2; i < ports.size(); ++i) {
    ports[i].inlet = true;
  }
  EXPECT_EQ(
      b.refusal(),
      "cannot use the stage \"first\" (demo.first): expected at most 8 inlets, found 9 "
      "inlets\n  at pipe.toml:7");
}

TEST(Refusal, RatesThatDoNotFitTheNumbers) {
  graph_builder b = chain();
  b.g.stages[1].info.takes = 3;
  EXPECT_EQ(
      b.refusal(),
      "cannot use the stage \"first\" (demo.first): expected a stage that gives 1 item "
      "for each item, found one that takes 3 and gives 1, and whose items have no "
      "numbers of their own\n  at pipe.toml:7");
  b.g.stages[1].info.own_numbering = true;
  EXPECT_EQ(b.refusal(), "accepted");
  b.g.stages[1].info.takes = 0;
  EXPECT_EQ(
      b.refusal(),
      "cannot use the stage \"first\" (demo.first): expected a stage that takes 1 to "
      "4096 items, found one that takes 0\n  at pipe.toml:7");
  b.g.stages[1].info.takes = 1;
  b.g.stages[1].info.gives = 4097;
  EXPECT_EQ(
      b.refusal(),
      "cannot use the stage \"first\" (demo.first): expected a stage that gives 1 to "
      "4096 items, found one that gives 4097\n  at pipe.toml:7");
  b.g.stages[1].info.gives = 1;
  b.g.stages[1].info.holds = 4096;
  EXPECT_EQ(
      b.refusal(),
      "cannot use the stage \"first\" (demo.first): expected a stage that keeps back "
      "fewer than 4096 items, found one that keeps back 4096\n  at pipe.toml:7");
}

TEST(Refusal, SkippingFailedItemsOfAStageWithState) {
  graph_builder b = chain();
  b.g.stages[1].on_failure = failure_policy::skip;
  EXPECT_EQ(
      b.refusal(),
      "cannot use the stage \"first\" (demo.first): expected a stage without state, "
      "since failed items are skipped, found one that is not declared stateless; let a "
      "failed item stop the run\n  at pipe.toml:7");
  b.g.stages[1].info.stateless = true;
  EXPECT_EQ(b.refusal(), "accepted");
  b.g.stages[1].info.state.push_back({"sum", true});
  EXPECT_EQ(
      b.refusal(),
      "cannot use the stage \"first\" (demo.first): expected a stage without state, "
      "since failed items are skipped, found the state \"sum\"; let a failed item stop "
      "the run\n  at pipe.toml:7");
}

TEST(Refusal, SkippingCallsThatMakeSeveralItems) {
  graph_builder b = chain();
  b.g.stages[1].on_failure = failure_policy::skip;
  b.g.stages[1].info.stateless = true;
  b.g.stages[1].info.own_numbering = true;
  EXPECT_EQ(b.refusal(), "accepted");
  b.g.stages[1].info.gives = 2;
  EXPECT_EQ(
      b.refusal(),
      "cannot use the stage \"first\" (demo.first): expected a stage that makes at most "
      "1 item of a call, since failed items are skipped, found one that makes up to 2; "
      "let a failed item stop the run\n  at pipe.toml:7");
  b.g.stages[1].info.face = face::late;
  EXPECT_EQ(b.refusal(), "accepted");
}

TEST(Refusal, BlockingStagesAndStepLoopsThatTakeSeveralItems) {
  graph_builder b = chain();
  b.g.stages[1].info.own_numbering = true;
  b.g.stages[1].info.face = face::looping;
  EXPECT_EQ(b.refusal(), "accepted");
  b.g.stages[1].info.takes = 2;
  EXPECT_EQ(
      b.refusal(),
      "cannot use the stage \"first\" (demo.first): expected a step loop that takes 1 "
      "item, found one that takes 2\n  at pipe.toml:7");
  b.g.stages[1].info.face = face::blocking;
  EXPECT_EQ(
      b.refusal(),
      "cannot use the stage \"first\" (demo.first): expected a blocking stage that fills "
      "1 item for each item, found one whose items have numbers of their own\n  at "
      "pipe.toml:7");
}

TEST(Refusal, AGraphWithoutASource) {
  EXPECT_EQ(
      graph_builder{}.refusal(),
      "cannot use the pipeline \"tested\": expected at least one source among its 0 "
      "stages, found none; begin with a stage that makes items");
  graph_builder lone;
  lone.task("first", "x:u8[?] -> y:u8[?]").place = "pipe.toml:7";
  EXPECT_EQ(
      lone.refusal(),
      "cannot use the pipeline \"tested\": expected at least one source among its 1 "
      "stage, found none; begin with a stage that makes items\n  at pipe.toml:7");
}

TEST(Refusal, EdgesThatLeadNowhere) {
  graph_builder b = chain();
  b.g.edges[1].to = 3;
  EXPECT_EQ(
      b.refusal(),
      "cannot use edge 1: expected a stage below 3, found stage 3\n  at pipe.toml:13");
  b.g.edges[1].to = 2;
  b.g.edges[1].inlet = 1;
  EXPECT_EQ(b.refusal(),
            "cannot use edge 1: expected a port of \"write\" below 1, found port 1\n  at "
            "pipe.toml:13");
  b.g.edges[1] = {.from = 1, .outlet = 0, .to = 2, .inlet = 0, .place = {}};
  EXPECT_EQ(b.refusal(),
            "cannot begin an edge at \"first.x\": expected an outlet, found an inlet");
  b.g.edges[1] = {.from = 1, .outlet = 1, .to = 0, .inlet = 0, .place = {}};
  EXPECT_EQ(b.refusal(),
            "cannot end an edge at \"read.y\": expected an inlet, found an outlet");
}

TEST(Refusal, WindowsAndDelaysOutsideTheirRange) {
  graph_builder b = chain();
  const std::string name = "cannot use the edge \"first.y\" -> \"write.x\": expected ";
  for (const std::uint32_t items : {0U, 4097U}) {
    b.g.edges[1].window_items = items;
    EXPECT_EQ(b.refusal(), name + "a window of 1 to 4096 items, found " +
                               std::to_string(items) + "\n  at pipe.toml:13");
  }
  b.g.edges[1].window_items = 4096;
  b.g.edges[1].window_bytes = 0;
  EXPECT_EQ(b.refusal(),
            name + "a window of at least 1 byte, found 0\n  at pipe.toml:13");
  b.g.edges[1].window_bytes = 1;
  EXPECT_EQ(b.refusal(), "accepted");
  b.g.edges[1].delay = 4096;
  EXPECT_EQ(b.refusal(),
            name + "a delay below 4096 items, found 4096\n  at pipe.toml:13");
}

TEST(Refusal, InletsWithNoEdgeOrTwo) {
  graph_builder b = chain();
  b.link("read.y", "write.x").place = "pipe.toml:20";
  EXPECT_EQ(
      b.refusal(),
      "cannot connect \"read.y\" to \"write.x\": expected one edge, found another from "
      "\"first.y\"; join the items with a stage\n  at pipe.toml:20");
  b.g.edges.resize(1);
  EXPECT_EQ(
      b.refusal(),
      "cannot leave the inlet \"write.x\" open: expected one edge, found none\n  at "
      "pipe.toml:11");
}

TEST(Refusal, ACycleWithoutADelayIsShownAsARing) {
  graph_builder b;
  b.source("read", "y:f32[4]");
  b.task("a", "x:f32[4] back:f32[4] -> y:f32[4]").place = "pipe.toml:5";
  b.task("b", "x:f32[4] -> y:f32[4]");
  b.task("c", "x:f32[4] -> y:f32[4]");
  b.task("behind", "x:f32[4] -> y:f32[4]");
  b.link("read.y", "a.x");
  b.link("c.y", "behind.x");
  b.link("a.y", "b.x");
  b.link("b.y", "c.x");
  b.link("c.y", "a.back");
  EXPECT_EQ(
      b.refusal(),
      "cycle without a delay: \"a\" -> \"b\" -> \"c\" -> \"a\"; give an edge of the "
      "cycle a delay of 1 item or more\n  at pipe.toml:5");
  b.g.edges.back().delay = 1;
  EXPECT_EQ(b.refusal(), "accepted");
}

TEST(Refusal, AStageThatFeedsItselfWithoutADelay) {
  graph_builder b;
  b.source("read", "y:f32[4]");
  b.task("sum", "x:f32[4] back:f32[4] -> y:f32[4]");
  b.link("read.y", "sum.x");
  b.link("sum.y", "sum.back");
  EXPECT_EQ(
      b.refusal(),
      "cycle without a delay: \"sum\" -> \"sum\"; give an edge of the cycle a delay of "
      "1 item or more");
  b.g.edges.back().delay = 1;
  EXPECT_EQ(b.refusal(), "accepted");
}

TEST(Refusal, AStageThatOnlyDelayedEdgesReach) {
  graph_builder b = chain();
  b.g.edges[1].delay = 2;
  EXPECT_EQ(
      b.refusal(),
      "cannot use the stage \"write\" (demo.write): expected an inlet whose edge has "
      "no delay, found a delay of 2 items at \"write.x\"\n  at pipe.toml:11");
}

TEST(Refusal, ADelayOnATypeThatIsNotFixed) {
  graph_builder b;
  b.source("read", "y:f32[n]");
  b.task("sum", "x:f32[n] back:f32[n] -> y:f32[n]");
  b.link("read.y", "sum.x");
  b.link("sum.y", "sum.back").delay = 3;
  b.g.edges.back().place = "pipe.toml:9";
  EXPECT_EQ(
      b.refusal(),
      "cannot use the edge \"sum.y\" -> \"sum.back\": expected a fixed type for its "
      "first 3 items, which are zeros, found f32[n]; fix the extents, or let \"sum\" "
      "accept gaps (gap policy \"pass\")\n  at pipe.toml:9");
  b.g.stages[1].info.gaps = gap_policy::pass;
  EXPECT_EQ(b.refusal(), "accepted");
}

TEST(Refusal, ScratchWithoutAFixedType) {
  graph_builder b = chain();
  b.g.stages[1].info.scratch.push_back({"mean", or_throw(port_type::parse("f64[n]"))});
  EXPECT_EQ(b.refusal(),
            "cannot use the stage \"first\" (demo.first): expected a fixed type of the "
            "scratch \"mean\", found f64[n]\n  at pipe.toml:7");
  b.g.stages[1].info.scratch[0].type = or_throw(port_type::parse("f64[k]"));
  EXPECT_EQ(b.refusal(), "accepted");  // k is 256
}

TEST(Refusal, MemoryBeyond63Bits) {
  graph_builder b;
  b.source("read", "y:u8[4611686018427387904]");
  b.sink("write", "x:any");
  b.link("read.y", "write.x");
  EXPECT_EQ(
      b.refusal(),
      "cannot size the memory of \"read.y\": expected at most 2^63-1 bytes, found 2 "
      "items of the type u8[4611686018427387904]");
  b.g.stages[1].info.takes = 2;
  EXPECT_EQ(
      b.refusal(),
      "cannot size the window of the edge \"read.y\" -> \"write.x\": expected fewer "
      "than 2^63 bytes, found 2 items of 4611686018427387904 bytes");
  EXPECT_EQ(code_of(b), errc::out_of_range);
}
