// SPDX-License-Identifier: Apache-2.0
/// @file
/// A capture as a graph to look at: DOT and SVG, each edge with its reason.
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "replay/captured_graph.hpp"

namespace weir::runtime {
namespace {

const char* name_of(hazard why) {
  switch (why) {
    case hazard::raw: return "RAW";
    case hazard::war: return "WAR";
    case hazard::waw: return "WAW";
    case hazard::asked:
    case hazard::told: break;
  }
  return "asked";
}

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
    case hazard::told: break;
  }
  return false;
}

/// The first pair of accesses that calls for the edge.
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

/// For double quotes of DOT and for text of XML alike.
std::string escaped(std::string_view text, bool xml) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '"': out += xml ? "&quot;" : "\\\""; break;
      case '\\': out += xml ? "\\" : "\\\\"; break;
      case '<': out += xml ? "&lt;" : "<"; break;
      case '>': out += xml ? "&gt;" : ">"; break;
      case '&': out += xml ? "&amp;" : "&"; break;
      default: out += c;
    }
  }
  return out;
}

struct corner {
  std::size_t x = 0;
  std::size_t y = 0;
};

/// Tasks in rows: one below all that it waits for.
std::vector<corner> places_of(const captured_graph& g,
                              const std::vector<outer_edge>& edges) {
  std::vector<corner> at(g.size());
  for (const outer_edge& e : edges) {  // by `to`, so earlier tasks are settled
    at[e.to].y = std::max(at[e.to].y, at[e.from].y + 1);
  }
  std::vector<std::size_t> used(g.size() + 1);
  for (corner& p : at) {
    p.x = used[p.y]++;
  }
  return at;
}

}  // namespace

std::string capture::to_dot() const {
  std::string out = "digraph tasks {\n  node [shape=box];\n";
  if (graph_ != nullptr) {
    for (std::size_t i = 0; i < graph_->size(); ++i) {
      out += fmt::format("  t{} [label=\"{} {}\"];\n", i, i,
                         escaped(graph_->nodes[i].name, false));
    }
    for (const outer_edge& e : graph_->all_edges()) {
      out += fmt::format("  t{} -> t{} [label=\"{}\"];\n", e.from, e.to,
                         escaped(reason_of(*graph_, e), false));
    }
  }
  return out + "}\n";
}

std::string capture::to_svg() const {
  constexpr std::size_t wide = 150;
  constexpr std::size_t high = 60;
  constexpr std::size_t box_wide = 130;
  constexpr std::size_t box_high = 26;
  std::string boxes;
  std::string lines;
  corner most;
  if (graph_ != nullptr) {
    const std::vector<outer_edge> edges = graph_->all_edges();
    const std::vector<corner> at = places_of(*graph_, edges);
    for (std::size_t i = 0; i < at.size(); ++i) {
      most = {std::max(most.x, at[i].x), std::max(most.y, at[i].y)};
      boxes += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"#eef\" "
          "stroke=\"#447\"/><text x=\"{}\" y=\"{}\">{} {}</text>\n",
          at[i].x * wide + 10, at[i].y * high + 10, box_wide, box_high,
          at[i].x * wide + 16, at[i].y * high + 27, i,
          escaped(graph_->nodes[i].name, true));
    }
    for (const outer_edge& e : edges) {
      lines += fmt::format(
          "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"#999\">"
          "<title>{}</title></line>\n",
          at[e.from].x * wide + 10 + box_wide / 2, at[e.from].y * high + 10 + box_high,
          at[e.to].x * wide + 10 + box_wide / 2, at[e.to].y * high + 10,
          escaped(reason_of(*graph_, e), true));
    }
  }
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" "
             "font-family=\"sans-serif\" font-size=\"12\">\n",
             (most.x + 1) * wide + 10, (most.y + 1) * high + 10) +
         lines + boxes + "</svg>\n";
}

}  // namespace weir::runtime
