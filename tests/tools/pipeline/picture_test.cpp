// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests drawings of pipelines.
#include "pipeline/picture.hpp"

#include <gtest/gtest.h>

#include <random>

#include "demo_stages.hpp"
#include "pipeline/layout.hpp"

namespace weir::tools {
namespace {

/// Returns a picture with forks, joins, long edges and feedback edges.
graph_picture random_picture(std::size_t stages, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  graph_picture p;
  p.name = "random";
  for (std::size_t s = 0; s < stages; ++s) {
    p.stages.push_back(
        {"stage" + std::to_string(s), "demo.any", s == 0 ? "source" : "task", ""});
    for (std::size_t inlet = 0; s > 0 && inlet < 1 + random() % 2; ++inlet) {
      p.edges.push_back({random() % s, s, "y" + std::to_string(random() % 2),
                         "x" + std::to_string(inlet), "f32[n,384]", 0, ""});
    }
    if (s > 2 && random() % 8 == 0) {
      p.edges.push_back({s, 1 + random() % (s - 1), "y0", "token", "u64[3]", 2, ""});
    }
  }
  return p;
}

bool is_inside(const placed_stage& box, point p, double slack) {
  return p.first > box.x - slack && p.first < box.x + box.width + slack &&
         p.second > box.y - slack && p.second < box.y + box.height + slack;
}

bool boxes_overlap(const placed_stage& a, const placed_stage& b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height &&
         b.y < a.y + a.height;
}

// Returns the number of boxes of other stages that an edge touches.
int crossed_boxes(const graph_picture& picture, const placed_picture& placed,
                  std::size_t edge) {
  int crossed = 0;
  for (std::size_t s = 0; s < placed.stages.size(); ++s) {
    for (std::size_t i = 0; i + 1 < placed.edges[edge].size(); ++i) {
      const auto [x1, y1] = placed.edges[edge][i];
      const auto [x2, y2] = placed.edges[edge][i + 1];
      for (double t = 0; t <= 1; t += 0.05) {
        const bool own = s == picture.edges[edge].from || s == picture.edges[edge].to;
        crossed += !own && is_inside(placed.stages[s],
                                     {x1 + (x2 - x1) * t, y1 + (y2 - y1) * t}, 1)
                       ? 1
                       : 0;
      }
    }
  }
  return crossed;
}

TEST(Picture, BoxesStandApartAndEdgesLeadAroundThem) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const std::size_t stages = 2 + seed % 39;
    const graph_picture picture = random_picture(stages, seed);
    const placed_picture placed = place_picture(picture);
    ASSERT_EQ(placed.stages.size(), stages);
    for (std::size_t a = 0; a < stages; ++a) {
      const placed_stage& box = placed.stages[a];
      EXPECT_GE(box.x, 0);
      EXPECT_GE(box.y, 0);
      EXPECT_LE(box.x + box.width, placed.width);
      EXPECT_LE(box.y + box.height, placed.height);
      for (std::size_t b = a + 1; b < stages; ++b) {
        EXPECT_FALSE(boxes_overlap(box, placed.stages[b])) << a << " and " << b;
      }
    }
    for (std::size_t e = 0; e < picture.edges.size(); ++e) {
      ASSERT_GE(placed.edges[e].size(), 2U);
      for (const auto& [x, y] : placed.edges[e]) {
        EXPECT_TRUE(x >= 0 && x <= placed.width && y >= 0 && y <= placed.height);
      }
      if (picture.edges[e].delay == 0) {
        EXPECT_LT(placed.edges[e].front().first, placed.edges[e].back().first);
        EXPECT_EQ(crossed_boxes(picture, placed, e), 0) << "edge " << e;
      }
    }
  }
}

TEST(Picture, AChainKeepsOneHeight) {
  graph_picture p;
  for (std::size_t s = 0; s < 40; ++s) {
    p.stages.push_back({"s" + std::to_string(s), "demo.any", "task", ""});
    if (s > 0) {
      p.edges.push_back({s - 1, s, "y", "x", "f32[n]", 0, ""});
    }
  }
  const placed_picture placed = place_picture(p);
  for (std::size_t s = 1; s < 40; ++s) {
    EXPECT_DOUBLE_EQ(placed.stages[s].y, placed.stages[0].y);
    EXPECT_GT(placed.stages[s].x, placed.stages[s - 1].x + placed.stages[s - 1].width);
  }
}

TEST(Picture, NamesStagesPortsTypesAndDelays) {
  const graph_picture p{
      "two",
      {{"read", "test.numbers", "source", "tip <1>"},
       {"write", "demo.lines", "sink", ""}},
      {{0, 1, "x", "in", "u64[3]", 0, ""}, {1, 0, "y", "back", "u64[3]", 4, ""}}};
  const std::string svg = picture_svg(p);
  for (const char* part :
       {"xmlns=\"http://www.w3.org/2000/svg\"", ">read<", ">test.numbers<", ">write<",
        ">x  u64[3]<", ">in<", ">delay 4<", "tip &lt;1&gt;", "class=\"pl-delay\"",
        "class=\"pl-source\"", "class=\"pl-sink\""}) {
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(
      picture_dot(p),
      "digraph \"two\" {\n"
      "  rankdir=LR;\n"
      "  \"read\" [shape=ellipse, tooltip=\"tip <1>\"];\n"
      "  \"write\" [shape=ellipse, tooltip=\"\"];\n"
      "  \"read\" -> \"write\" [label=\"u64[3]\", taillabel=\"x\", headlabel=\"in\", "
      "tooltip=\"\"];\n"
      "  \"write\" -> \"read\" [label=\"u64[3], delay 4\", taillabel=\"y\", "
      "headlabel=\"back\", tooltip=\"\", style=dashed, constraint=false];\n"
      "}\n");
}

TEST(Picture, DamagedFactsGiveADrawing) {
  for (const char* text :
       {"{}", "{\"stages\": 7, \"edges\": {}}", "{\"stages\": [1, {}, {\"name\": 2}]}",
        "{\"stages\": [{\"name\": \"a\"}, {\"name\": \"b\"}], \"edges\": [{\"from\": "
        "\"a.y\", \"to\": \"b.x\"}, {\"from\": \"b.y\", \"to\": \"a.x\"}, {\"from\": "
        "\"a\", \"to\": \"c.x\"}, {\"from\": \"a.y\", \"to\": \"a.x\"}]}"}) {
    EXPECT_TRUE(picture_svg(picture_of(facts::parse(text))).ends_with("</svg>\n"))
        << text;
  }
}

}  // namespace
}  // namespace weir::tools
