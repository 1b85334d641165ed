// SPDX-License-Identifier: Apache-2.0
/// @file
/// Names of the parts of a graph in error messages and notes.
#pragma once

#include <span>
#include <string>

#include "weir/pipeline/graph.hpp"

namespace weir::flow {

/// Returns the name of a stage in quotes: `"first"`.
[[nodiscard]] std::string stage_name(const graph& g, std::uint32_t stage);

/// Returns the name of a port in quotes: `"first.y"`.
/// @param port  Index among `stage_info::ports`.
[[nodiscard]] std::string full_name(const graph& g, std::uint32_t stage,
                                    std::uint32_t port);
/// Returns the name of the outlet at which an edge begins, in quotes.
[[nodiscard]] std::string outlet_name(const graph& g, const graph_edge& edge);
/// Returns the name of the inlet at which an edge ends, in quotes.
[[nodiscard]] std::string inlet_name(const graph& g, const graph_edge& edge);
/// Returns the name of an edge: `edge "first.y" -> "second.x"`.
[[nodiscard]] std::string edge_name(const graph& g, const graph_edge& edge);

/// Returns a closed ring of stages: `"a" -> "b" -> "a"`.
/// @param ring  Stages in the order of the edges, each once.
[[nodiscard]] std::string ring_name(const graph& g, std::span<const std::uint32_t> ring);
/// Turns a ring so that it begins with the stage that was defined first.
void rotate_to_first(std::vector<std::uint32_t>& ring);

/// Returns the place of an edge, or of a stage at one of its ends if it has none.
[[nodiscard]] std::string place_of(const graph& g, const graph_edge& edge);

/// Returns the error of a stage that cannot be used: `cannot use the stage "a" (demo.a):
/// expected <expected>, found <found>`, with the place of the stage.
[[nodiscard]] error refused_stage(const graph& g, std::uint32_t stage,
                                  std::string_view expected, std::string_view found);
/// Returns the error of an edge that cannot be used: `cannot use the edge "a.y" -> "b.x":
/// expected <expected>, found <found>`, with the place of the edge.
[[nodiscard]] error refused_edge(const graph& g, const graph_edge& edge,
                                 std::string_view expected, std::string_view found);

}  // namespace weir::flow
