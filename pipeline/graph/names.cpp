// SPDX-License-Identifier: Apache-2.0
/// @file
/// Names of the parts of a graph in error messages and notes.
///
/// Every message of the check names parts of the graph through these functions, so that
/// they look the same everywhere.
#include "graph/names.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace weir::flow {

std::string stage_name(const graph& g, std::uint32_t stage) {
  return fmt::format("\"{}\"", g.stages[stage].name);
}

std::string full_name(const graph& g, std::uint32_t stage, std::uint32_t port) {
  const graph_stage& s = g.stages[stage];
  return fmt::format("\"{}.{}\"", s.name, s.info.ports[port].name);
}

std::string outlet_name(const graph& g, const graph_edge& edge) {
  return full_name(g, edge.from, edge.outlet);
}

std::string inlet_name(const graph& g, const graph_edge& edge) {
  return full_name(g, edge.to, edge.inlet);
}

std::string edge_name(const graph& g, const graph_edge& edge) {
  return fmt::format("edge {} -> {}", outlet_name(g, edge), inlet_name(g, edge));
}

/// Shows a cycle with its first stage at both ends.
std::string ring_name(const graph& g, std::span<const std::uint32_t> ring) {
  std::string out;
  for (const std::uint32_t stage : ring) {
    out += stage_name(g, stage) + " -> ";
  }
  return out + stage_name(g, ring.front());
}

/// The same cycle is always shown from the same stage.
void rotate_to_first(std::vector<std::uint32_t>& ring) {
  std::rotate(ring.begin(), std::ranges::min_element(ring), ring.end());
}

/// Returns the place in a file of the edge, or of one of its ends.
std::string place_of(const graph& g, const graph_edge& edge) {
  for (const std::string* place :
       {&edge.place, &g.stages[edge.to].place, &g.stages[edge.from].place}) {
    if (!place->empty()) {
      return *place;
    }
  }
  return {};
}

/// Error of a stage that the check refuses.
error refused_stage(const graph& g, std::uint32_t stage, std::string_view expected,
                    std::string_view found) {
  const graph_stage& s = g.stages[stage];
  return error(errc::invalid_argument,
               fmt::format("cannot use the stage \"{}\" ({}): expected {}, found {}",
                           s.name, s.info.name, expected, found))
      .located(s.place);
}

/// Error of an edge that the check refuses.
error refused_edge(const graph& g, const graph_edge& edge, std::string_view expected,
                   std::string_view found) {
  return error(errc::invalid_argument,
               fmt::format("cannot use the {}: expected {}, found {}", edge_name(g, edge),
                           expected, found))
      .located(place_of(g, edge));
}

}  // namespace weir::flow
