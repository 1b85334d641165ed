// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the unification of types along edges.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "graph_builder.hpp"

using namespace weir;
using namespace weir::flow;
using weir::test::graph_builder;

namespace {

/// Returns the type of `stage.port` after the check.
std::string type_of(const graph_builder& b, const std::string& name) {
  const auto p = check(b.g);
  if (!p) {
    return p.error().message();
  }
  const std::size_t dot = name.rfind('.');
  for (std::size_t s = 0; s < b.g.stages.size(); ++s) {
    if (b.g.stages[s].name == name.substr(0, dot)) {
      const int port = b.g.stages[s].info.find_port(name.substr(dot + 1));
      return p->stages[s].types.at(static_cast<std::size_t>(port)).text();
    }
  }
  return "no such stage";
}

/// Returns a source and a sink of given types with an edge between them.
graph_builder edge(const std::string& outlet, const std::string& inlet) {
  graph_builder b;
  b.source("first", "y:" + outlet).place = "pipe.toml:3";
  b.sink("second", "x:" + inlet).place = "pipe.toml:8";
  b.link("first.y", "second.x").place = "pipe.toml:17";
  return b;
}

/// Returns the message for types that clash on the edge from `first.y` to `second.x`.
std::string clash(const std::string& expected, const std::string& found) {
  return "cannot connect \"first.y\" to \"second.x\": expected " + expected + ", found " +
         found +
         "; \"first\" is defined at pipe.toml:3, \"second\" is defined at pipe.toml:8\n  "
         "at "
         "pipe.toml:17";
}

/// Returns a source and a stage that forwards what two sinks take.
graph_builder fork(const std::string& given, const std::string& left,
                   const std::string& right) {
  graph_builder b;
  b.source("read", "y:" + given);
  b.task("select", "x:any -> a:any b:any").info.forwards = true;
  b.sink("left", "x:" + left);
  b.sink("right", "x:" + right);
  b.link("read.y", "select.x");
  b.link("select.a", "left.x");
  b.link("select.b", "right.x");
  return b;
}

}  // namespace

TEST(Types, AClashNamesBothEndsTheirTypesAndTheirPlaces) {
  EXPECT_EQ(edge("f32[n,256]", "f32[n,384]").refusal(),
            clash("f32[n,384]", "f32[n,256]"));
  EXPECT_EQ(edge("f64[n]", "f32[n]").refusal(), clash("f32[n]", "f64[n]"));
  EXPECT_EQ(edge("f32[n,2]", "f32[n]").refusal(), clash("f32[n]", "f32[n,2]"));
  EXPECT_EQ(edge("f32[]", "f32[?]").refusal(), clash("f32[?]", "f32[]"));
}

TEST(Types, WithoutAPlaceOfTheEdgeTheMessageHasThatOfAStage) {
  graph_builder b = edge("f32[2]", "f32[3]");
  b.g.edges[0].place = "";
  EXPECT_EQ(b.refusal(),
            "cannot connect \"first.y\" to \"second.x\": expected f32[3], found f32[2]; "
            "\"first\" is defined at pipe.toml:3\n  at pipe.toml:8");
  b.g.stages[0].place = b.g.stages[1].place = "";
  EXPECT_EQ(b.refusal(),
            "cannot connect \"first.y\" to \"second.x\": expected f32[3], found f32[2]");
}

TEST(Types, EachPairOfExtentsThatFitsIsAccepted) {
  EXPECT_EQ(type_of(edge("f32[7]", "f32[n]"), "second.x"), "f32[7]");
  EXPECT_EQ(type_of(edge("f32[n]", "f32[7]"), "first.y"), "f32[7]");
  EXPECT_EQ(type_of(edge("f32[n]", "f32[m]"), "second.x"), "f32[m]");
  EXPECT_EQ(type_of(edge("f32[?]", "f32[7]"), "first.y"), "f32[?]");
  EXPECT_EQ(type_of(edge("f32[?]", "f32[n]"), "second.x"), "f32[n]");
  EXPECT_EQ(type_of(edge("f32[7]", "f32[?]"), "second.x"), "f32[?]");
  EXPECT_EQ(type_of(edge("any", "any"), "second.x"), "any");
  EXPECT_EQ(type_of(edge("f32[n,3]", "any"), "second.x"), "f32[n,3]");
  EXPECT_EQ(type_of(edge("any", "f32[?,3]"), "first.y"), "f32[?,3]");
}

TEST(Types, ALetterHasOneValueAtAllPortsOfItsStage) {
  graph_builder b;
  b.source("a", "y:f32[3]");
  b.source("b", "y:f32[4]");
  b.task("add", "x:f32[n] z:f32[n] -> y:f32[n]");
  b.link("a.y", "add.x");
  b.link("b.y", "add.z");
  EXPECT_EQ(
      b.refusal(),
      "cannot connect \"b.y\" to \"add.z\": expected f32[3], found f32[4]; \"add.z\" "
      "is declared as f32[n]");
  b.g.stages[1].info.ports[0].type.shape[0].number = 3;
  EXPECT_EQ(type_of(b, "add.y"), "f32[3]");
}

TEST(Types, ALetterThatStandsTwiceInOneTypeAsksForASquare) {
  EXPECT_EQ(edge("f32[3,4]", "f32[n,n]").refusal(), clash("f32[n,n]", "f32[3,4]"));
  EXPECT_EQ(type_of(edge("f32[3,m]", "f32[n,n]"), "first.y"), "f32[3,3]");
}

TEST(Types, NumbersTravelBothWaysThroughAChain) {
  graph_builder b;
  b.source("read", "y:f32[n,k]");
  b.task("a", "x:f32[n,k] -> y:f32[k,n]");
  b.task("b", "x:f32[r,c] -> y:f32[r,c]");
  b.sink("write", "x:f32[384,m]");
  b.link("read.y", "a.x");
  b.link("a.y", "b.x");
  b.link("b.y", "write.x");
  EXPECT_EQ(type_of(b, "read.y"), "f32[n,384]");
  EXPECT_EQ(type_of(b, "b.y"), "f32[384,c]");
  b.g.stages[0].info.ports[0].type.shape[1] = {extent::kind::fixed, 256, '?'};
  EXPECT_EQ(
      b.refusal(),
      "cannot connect \"b.y\" to \"write.x\": expected f32[384,m], found f32[256,c]; "
      "\"b.y\" is declared as f32[r,c]");
}

TEST(Types, ADiamondMeetsWithTheSameTypeOnBothSides) {
  graph_builder b;
  b.source("read", "y:f32[n]");
  b.task("left", "x:f32[n] -> y:f32[n]");
  b.task("right", "x:f32[n] -> y:f32[n]");
  b.task("join", "x:f32[a] z:f32[b] -> y:f32[a,b]");
  b.sink("write", "x:f32[5,?]");
  b.link("read.y", "left.x");
  b.link("read.y", "right.x");
  b.link("left.y", "join.x");
  b.link("right.y", "join.z");
  b.link("join.y", "write.x");
  EXPECT_EQ(type_of(b, "right.y"), "f32[5]");
  EXPECT_EQ(type_of(b, "join.y"), "f32[5,5]");
  b.g.stages[4].info.ports[0].type.shape[0] = {};
  EXPECT_EQ(type_of(b, "join.y"), "f32[a,a]");  // one letter, as the extents are equal
  b.g.stages[4].info.ports[0].type.shape = {{extent::kind::fixed, 5, '?'},
                                            {extent::kind::fixed, 6, '?'}};
  EXPECT_EQ(
      b.refusal(),
      "cannot connect \"join.y\" to \"write.x\": expected f32[5,6], found f32[a,a]; "
      "\"join.y\" is declared as f32[a,b]");
}

TEST(Types, AStageThatForwardsHandsTypesThroughItsAnyPorts) {
  EXPECT_EQ(type_of(fork("u8[n,3]", "any", "any"), "right.x"), "u8[n,3]");
  EXPECT_EQ(type_of(fork("any", "any", "u8[7,3]"), "read.y"), "u8[7,3]");
  EXPECT_EQ(
      fork("u8[7,3]", "any", "u8[7,4]").refusal(),
      "cannot connect \"select.b\" to \"right.x\": expected u8[7,4], found u8[7,3]; "
      "\"select.b\" is declared as any");
  EXPECT_EQ(
      fork("u8[7,3]", "f32[7,3]", "any").refusal(),
      "cannot connect \"select.a\" to \"left.x\": expected f32[7,3], found u8[?,?]; "
      "\"select.a\" is declared as any");
}

TEST(Types, AnUnknownExtentStaysUnknownBehindAStageThatForwards) {
  const graph_builder b = fork("u8[?,3]", "u8[5,3]", "u8[6,3]");
  EXPECT_EQ(type_of(b, "select.a"), "u8[?,3]");
}

TEST(Types, AStageThatDoesNotForwardMayGiveAnotherTypeThanItTakes) {
  graph_builder b = fork("u8[7]", "f32[8]", "f64[9]");
  b.g.stages[1].info.forwards = false;
  EXPECT_EQ(type_of(b, "select.x"), "u8[7]");
  EXPECT_EQ(type_of(b, "select.a"), "f32[8]");
  EXPECT_EQ(type_of(b, "select.b"), "f64[9]");
}

TEST(Types, LettersThatAPortTakesOverDoNotMeetThoseOfItsStage) {
  graph_builder b;
  b.source("a", "y:f32[n]");
  b.source("b", "y:f32[n]");
  b.source("c", "y:f32[k,k]");
  b.task("join", "x:any y:any z:any m:f32[n] -> r:f32[n]");
  b.link("a.y", "join.x");
  b.link("b.y", "join.y");
  b.link("c.y", "join.z");
  b.source("d", "y:f32[n]");
  b.link("d.y", "join.m");
  EXPECT_EQ(type_of(b, "join.m"), "f32[n]");
  EXPECT_EQ(type_of(b, "join.x"), "f32[a]");
  EXPECT_EQ(type_of(b, "join.y"), "f32[b]");
  EXPECT_EQ(type_of(b, "join.z"), "f32[k,k]");
}

TEST(Types, ScratchSharesTheLettersOfItsStage) {
  graph_builder b;
  b.source("read", "y:f32[3,5]");
  b.task("a", "x:f32[n,k]")
      .info.scratch.push_back({"sums", or_throw(port_type::parse("f64[k,2]"))});
  b.link("read.y", "a.x");
  const plan p = or_throw(check(b.g));
  ASSERT_EQ(p.stages[1].scratch.size(), 1U);
  EXPECT_EQ(p.stages[1].scratch[0].text(), "f64[5,2]");
  EXPECT_EQ(p.stages[1].types.size(), 1U);
}

// The reference colours letters by walking the edges again and again until nothing
// changes. It knows no sets.
TEST(Types, RandomGraphsUnifyAsAReferenceDoes) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int accepted = 0;
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    graph_builder b;
    const auto extent_text = [&] {
      const auto r = random() % 12;
      return r < 1   ? std::to_string(2 + random() % 2)
             : r < 2 ? std::string("?")
                     : std::string(1, "nkm"[random() % 3]);
    };
    const auto type_text = [&] {
      return "f32[" + extent_text() + "," + extent_text() + "]";
    };
    b.source("s0", "y:" + type_text());
    const auto stages = 2 + random() % 5;
    for (std::size_t s = 1; s < stages; ++s) {
      const std::string name = "s" + std::to_string(s);
      b.task(name, "x:" + type_text() + " z:" + type_text() + " -> y:" + type_text());
      for (const char* inlet : {".x", ".z"}) {
        b.link("s" + std::to_string(random() % s) + ".y", name + inlet);
      }
    }
    std::ranges::shuffle(b.g.edges, random);
    std::map<std::pair<std::size_t, char>, std::int64_t> numbers;
    bool clashes = false;
    const auto value = [&](std::size_t s, const extent& e) -> std::int64_t {
      const auto known = numbers.find({s, e.letter});
      return e.is == extent::kind::fixed ? e.number
             : known == numbers.end()    ? -1
                                         : known->second;
    };
    for (std::size_t pass = 0; pass < 40; ++pass) {
      for (const graph_edge& e : b.g.edges) {
        for (std::size_t i = 0; i < 2; ++i) {
          const extent& x = b.g.stages[e.from].info.ports[e.outlet].type.shape[i];
          const extent& y = b.g.stages[e.to].info.ports[e.inlet].type.shape[i];
          if (x.is == extent::kind::unknown || y.is == extent::kind::unknown) {
            continue;
          }
          const std::int64_t left = value(e.from, x);
          const std::int64_t right = value(e.to, y);
          clashes = clashes || (left >= 0 && right >= 0 && left != right);
          if (left < 0 && right >= 0) {
            numbers[{e.from, x.letter}] = right;
          } else if (right < 0 && left >= 0) {
            numbers[{e.to, y.letter}] = left;
          }
        }
      }
    }
    const auto p = check(b.g);
    ASSERT_EQ(p.has_value(), !clashes) << "round " << round;
    (clashes ? refused : accepted) += 1;
    for (std::size_t s = 0; p && s < b.g.stages.size(); ++s) {
      for (std::size_t port = 0; port < b.g.stages[s].info.ports.size(); ++port) {
        for (std::size_t i = 0; i < 2; ++i) {
          const extent& declared = b.g.stages[s].info.ports[port].type.shape[i];
          const extent& found = p->stages[s].types[port].shape[i];
          const std::int64_t expected =
              declared.is == extent::kind::unknown ? -1 : value(s, declared);
          ASSERT_EQ(found.is == extent::kind::fixed ? found.number : -1, expected)
              << "round " << round;
        }
      }
    }
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 100);
}
