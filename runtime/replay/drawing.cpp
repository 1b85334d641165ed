// SPDX-License-Identifier: Apache-2.0
/// @file
/// Drawings of a capture: a graph in DOT and in SVG, each edge with its reason.
///
/// Both drawings show all edges that the accesses cause, without the reduction by which a
/// replay drops implied ones, so the reasons of the program can be seen.
#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "replay/captured_graph.hpp"
#include "weir/base/svg.hpp"

namespace weir::runtime {
namespace {

/// Returns the name of a hazard; RAW, WAR and WAW are read after write and so on.
const char* name_of(hazard why) {
  switch (why) {
    case hazard::raw: return "RAW";
    case hazard::war: return "WAR";
    case hazard::waw: return "WAW";
    case hazard::asked:
    case hazard::manual: break;
  }
  return "asked";
}

/// Returns a footprint as text: its span, and for strided ones its progressions.
/// For example "[0, 144) 16 B x 3 every 64": three blocks of 16 bytes.
std::string describe(const footprint& f) {
  std::string out = fmt::format("[{}, {})", f.lo, f.hi);
  if (!f.dense()) {
    out += fmt::format(" {} B", f.run);
    for (int i = f.depth; i-- > 0;) {
      const auto& p = f.steps[static_cast<std::size_t>(i)];
      out += fmt::format(" x {} every {}", p.count, p.stride);
    }
  }
  return out;
}

/// Returns whether two access modes in this order cause a hazard.
/// An access that reads and writes counts as a read for edges from writers.
bool asks_for(hazard why, access_mode earlier, access_mode later) {
  if (earlier == access_mode::none || later == access_mode::none) {
    return false;
  }
  const bool writes = earlier != access_mode::read;
  switch (why) {
    case hazard::raw: return writes && later != access_mode::write;
    case hazard::waw: return writes && later == access_mode::write;
    case hazard::war: return !writes && later != access_mode::read;
    case hazard::asked:
    case hazard::manual: break;
  }
  return false;
}

/// Returns the text for the first pair of accesses that causes the edge.
/// Edges that the program asked for have no accesses and show the word alone.
std::string reason_of(const captured_graph& g, const outer_edge& e) {
  const auto accesses_of = [&](std::uint32_t task) {
    const std::uint32_t first = g.nodes[task].first_access;
    return std::span(g.accesses).subspan(first, g.nodes[task + 1].first_access - first);
  };
  for (const access& a : accesses_of(e.from)) {
    for (const access& b : accesses_of(e.to)) {
      if (asks_for(e.why, a.mode, b.mode) &&
          decide_overlap(a.bytes, b.bytes) != overlap::no) {
        return fmt::format("{} storage {}: {} and {}", name_of(e.why), a.bytes.id.index,
                           describe(a.bytes), describe(b.bytes));
      }
    }
  }
  return name_of(e.why);
}

/// Returns a text with quotes and backslashes escaped, for a quoted string of DOT.
std::string dot_escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
    }
    out += c;
  }
  return out;
}

// Measures of the picture in pixels.
constexpr double box_distance = 150;  ///< from box to box
constexpr double row_distance = 60;
constexpr double box_width = 130;
constexpr double box_height = 26;
constexpr double margin = 10;
constexpr double legend_width = 620;

struct corner {
  double x = 0;
  double y = 0;
};

/// Upper left corners of the boxes of tasks. Each task is in the row below the lowest of
/// its predecessors.
struct layout {
  std::vector<corner> boxes;
  corner end = {box_distance, margin};
};
layout lay_out(const captured_graph& g, const std::vector<outer_edge>& edges) {
  std::vector<std::size_t> row(g.size());
  for (const outer_edge& e :
       edges) {  // edges are ordered by `to`, so earlier tasks have their rows
    row[e.to] = std::max(row[e.to], row[e.from] + 1);
  }
  std::vector<std::size_t> count(g.size() + 1);
  for (const std::size_t r : row) {
    ++count[r];
  }
  // The widest row decides the width; shorter rows stand in the middle.
  const std::size_t most = *std::max_element(count.begin(), count.end());
  const auto rows = std::find(count.begin(), count.end(), std::size_t{0}) - count.begin();
  layout out;
  out.end = {margin + static_cast<double>(most) * box_distance,
             margin + static_cast<double>(rows) * row_distance};
  std::vector<std::size_t> used(g.size());
  for (const std::size_t r : row) {
    const double left = margin + static_cast<double>(most - count[r]) * box_distance / 2;
    out.boxes.push_back({left + static_cast<double>(used[r]++) * box_distance,
                         margin + static_cast<double>(r) * row_distance});
  }
  return out;
}

/// Returns one colour for each kernel name, in the order in which the names appear.
std::vector<const char*> colours_of(const captured_graph& g) {
  constexpr std::array<const char*, 8> palette = {"#dbe9fb", "#fde3c8", "#d8f0d8",
                                                  "#f7d9de", "#e6def5", "#d3eeee",
                                                  "#f3ecc4", "#e4e4e4"};
  std::vector<std::string_view> names;
  std::vector<const char*> out;
  for (std::size_t i = 0; i < g.size(); ++i) {
    const std::string_view name = g.nodes[i].name;
    // More names than colours share colours.
    const auto found = std::find(names.begin(), names.end(), name);
    out.push_back(
        palette[static_cast<std::size_t>(found - names.begin()) % palette.size()]);
    if (found == names.end()) {
      names.push_back(name);
    }
  }
  return out;
}

/// Draws the tasks.
void draw_boxes(svg& out, const captured_graph& g, const std::vector<corner>& boxes) {
  const std::vector<const char*> colours = colours_of(g);
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const corner p = boxes[i];
    out.rect(p.x, p.y, box_width, box_height,
             fmt::format(R"(rx="4" fill="{}" stroke="#556")", colours[i]));
    out.text(p.x + 6, p.y + 17, "", fmt::format("{} {}", i, g.nodes[i].name));
  }
}

/// Returns the dash pattern of a hazard.
const char* dashes_of(hazard why) {
  switch (why) {
    case hazard::raw: return "none";
    case hazard::war: return "6 3";
    case hazard::waw: return "2 3";
    case hazard::asked:
    case hazard::manual: break;
  }
  return "10 3 2 3";
}

}  // namespace

/// Writes the graph for Graphviz, with the reason of each edge as its label.
std::string capture::to_dot() const {
  std::string out = "digraph tasks {\n  node [shape=box];\n";
  if (graph_ != nullptr) {
    for (std::size_t i = 0; i < graph_->size(); ++i) {
      out += fmt::format("  t{} [label=\"{} {}\"];\n", i, i,
                         dot_escape(graph_->nodes[i].name));
    }
    for (const outer_edge& e : graph_->all_edges()) {
      out += fmt::format("  t{} -> t{} [label=\"{}\"];\n", e.from, e.to,
                         dot_escape(reason_of(*graph_, e)));
    }
  }
  return out + "}\n";
}

/// Draws the graph without a layout program. Edges are straight lines under the boxes, so
/// an edge over several rows may pass behind a box.
std::string capture::to_svg() const {
  const bool any = graph_ != nullptr && graph_->size() != 0;
  const auto edges = any ? graph_->all_edges() : std::vector<outer_edge>();
  const layout place = any ? lay_out(*graph_, edges) : layout{};
  svg out(fmt::format(R"(xmlns="http://www.w3.org/2000/svg" width="{}" height="{}" )"
                      R"(font-family="sans-serif" font-size="12")",
                      std::max(place.end.x, legend_width), place.end.y + box_height));
  out.add(
      "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" "
      "markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">"
      "<path d=\"M0 0 L8 4 L0 8 z\" fill=\"#778\"/></marker></defs>\n");
  for (const outer_edge& e : edges) {
    const corner from = place.boxes[e.from];
    const corner to = place.boxes[e.to];
    out.line(from.x + box_width / 2, from.y + box_height, to.x + box_width / 2, to.y - 2,
             fmt::format("stroke=\"#778\" stroke-dasharray=\"{}\" "
                         "marker-end=\"url(#tip)\"",
                         dashes_of(e.why)),
             reason_of(*graph_, e));
  }
  if (any) {
    draw_boxes(out, *graph_, place.boxes);
  }
  out.text(margin, place.end.y + box_height / 2, "fill=\"#556\"",
           "Edges: RAW solid, WAR dashed, WAW dotted, asked for dash-dotted; the pointer "
           "on one shows its regions");
  return std::move(out).finish();
}

}  // namespace weir::runtime
