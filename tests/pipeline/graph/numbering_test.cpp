// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests numberings, the guarantee and the description of a plan.
#include <gtest/gtest.h>

#include "graph_builder.hpp"

using namespace weir;
using namespace weir::flow;
using weir::test::graph_builder;

namespace {

/// Returns two batchers behind one source, and a stage that joins two outlets.
graph_builder concatenated(const std::string& left, const std::string& right) {
  graph_builder b;
  b.source("read", "y:f32[4]");
  for (const char* name : {"pairs", "triples"}) {
    flow::graph_stage& s = b.task(name, "x:f32[4] -> y:f32[4]");
    s.info.own_numbering = true;
    s.info.takes = 2;
  }
  b.task("scale", "x:f32[4] -> y:f32[4]");
  b.task("join", "x:f32[4] z:f32[4] -> y:f32[4]");
  b.link("read.y", "pairs.x");
  b.link("read.y", "triples.x");
  b.link("pairs.y", "scale.x");
  b.link(left, "join.x");
  b.link(right, "join.z").place = "pipe.toml:30";
  return b;
}

}  // namespace

TEST(Numbering, AStageKeepsTheNumberingOfItsInletsUnlessItOpensOne) {
  const plan p = or_throw(check(concatenated("scale.y", "pairs.y").g));
  std::vector<std::uint32_t> found;
  for (const planned_stage& s : p.stages) {
    found.push_back(s.numbering);
  }
  EXPECT_EQ(found, (std::vector<std::uint32_t>{0, 1, 2, 1, 1}));
}

TEST(Numbering, ItemsOfTwoNumberingsAreNotJoined) {
  EXPECT_EQ(
      concatenated("read.y", "scale.y").refusal(),
      "cannot join \"join.x\" and \"join.z\": expected items of one numbering, found "
      "the numbers of the sources and of \"pairs\"; join the items before they get "
      "numbers of their own\n  at pipe.toml:30");
  EXPECT_EQ(
      concatenated("triples.y", "pairs.y").refusal(),
      "cannot join \"join.x\" and \"join.z\": expected items of one numbering, found "
      "the numbers of \"triples\" and of \"pairs\"; join the items before they get "
      "numbers of their own\n  at pipe.toml:30");
}

TEST(Numbering, AnEdgeWithADelayHasTheNumberingOfItsHead) {
  graph_builder b = concatenated("read.y", "scale.y");
  b.g.edges.back().delay = 1;
  EXPECT_EQ(b.refusal(), concatenated("read.y", "scale.y").refusal());
  b = concatenated("pairs.y", "scale.y");
  b.g.edges.back().delay = 1;
  EXPECT_EQ(b.refusal(), "accepted");
}

TEST(Promise, TheWeakestStageDecides) {
  graph_builder b;
  b.source("live", "y:f32[4]");
  b.task("scale", "x:f32[4] -> y:f32[4]");
  b.sink("file", "x:f32[4]");
  b.sink("socket", "x:f32[4]");
  b.link("live.y", "scale.x");
  b.link("scale.y", "file.x");
  b.link("scale.y", "socket.x");
  plan p = or_throw(check(b.g));
  EXPECT_EQ(p.promise, guarantee::exactly_once);
  EXPECT_EQ(p.weakest, "");
  b.g.stages[3].info.promise = guarantee::at_least_once;
  p = or_throw(check(b.g));
  EXPECT_EQ(p.promise, guarantee::at_least_once);
  EXPECT_EQ(p.weakest, "socket");
  b.g.stages[0].info.promise = guarantee::none;
  p = or_throw(check(b.g));
  EXPECT_EQ(p.promise, guarantee::none);
  EXPECT_EQ(p.weakest, "live");
  b.g.stages[0].info.promise = guarantee::exactly_once;
  b.g.stages[1].info.promise = guarantee::none;  // such as one that asks a clock
  p = or_throw(check(b.g));
  EXPECT_EQ(p.promise, guarantee::none);
  EXPECT_EQ(p.weakest, "scale");
}

TEST(Plan, EdgesOfAStageStandInTheOrderOfItsPorts) {
  graph_builder b;
  b.source("read", "a:f32[4] b:f32[4] c:f32[4]");
  b.sink("write", "x:f32[4] z:f32[4] w:f32[4]");
  b.link("read.b", "write.w");
  b.link("read.a", "write.z");
  b.link("read.b", "write.x");
  const plan p = or_throw(check(b.g));
  EXPECT_EQ(p.stages[0].out, (std::vector<std::uint32_t>{1, 0, 2}));
  EXPECT_EQ(p.stages[1].in, (std::vector<std::uint32_t>{2, 1, 0}));
  EXPECT_EQ(
      p.notes,
      (std::vector<std::string>{"outlet \"read.c\" has no edge: its items are dropped"}));
}

TEST(Describe, ShowsStagesEdgesMemoryGuaranteeAndNotes) {
  graph_builder b;
  b.source("read", "image:u8[n,64]");
  b.task("first", "x:u8[n,k] state:f32[16] -> y:f32[16]").info.gaps = gap_policy::skip;
  b.sink("write", "x:any").info.promise = guarantee::at_least_once;
  b.g.stages[2].info.takes = 10;
  b.link("read.image", "first.x");
  b.link("first.y", "write.x");
  b.link("first.y", "first.state").delay = 2;
  EXPECT_EQ(describe(or_throw(check(b.g))),
            R"(pipeline "tested": 3 stages, 3 edges

  stage  uses        face    numbering  slots  memory
  read   demo.read   source  0          9      128.0 MiB
  first  demo.first  task    0          11     704 B
  write  demo.write  sink    0          1      -

  edge                         type      window
  read.image  ->  first.x      u8[n,64]  8 items, 64.0 MiB
  first.y     ->  write.x      f32[16]   10 items, 64.0 MiB
  first.y     ->  first.state  f32[16]   8 items, 64.0 MiB, delay 2

memory of items: at most 134219136 bytes (128.0 MiB)
guarantee: at least once (because of "write")
note: edge "first.y" -> "write.x": window of 8 items enlarged to 10, because )"
            "\"write\" takes 10 items at a time\n");
}
