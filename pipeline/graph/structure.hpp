// SPDX-License-Identifier: Apache-2.0
/// @file
/// The form of a graph: names, ports, edges, and the order of the stages.
#pragma once

#include "weir/pipeline/graph.hpp"
#include "weir/pipeline/item.hpp"

namespace weir::flow {

/// Largest number of bytes of a name.
inline constexpr std::size_t max_name_bytes = 64;
/// Largest window of an edge in items.
inline constexpr std::uint32_t max_window_items = 4096;

/// Checks each stage and each edge by itself, and that names are unique.
/// @error{invalid_argument, a name, a port, a rate, a window or an edge cannot be used;
/// or two stages, or two ports of a stage, have one name}
[[nodiscard]] result<void> check_form(const graph& g);

/// Enters the edges of each stage into its plan; outlets without an edge get a note.
/// @param p  A plan whose graph has passed `check_form`.
/// @error{invalid_argument, an inlet has no edge or two, or only an edge with a delay
/// leads to a stage}
[[nodiscard]] result<void> connect_stages(plan& p);

/// Orders the stages so that each stands behind the stages that feed it, apart from edges
/// with a delay. Of several stages that could be next, the order of definition decides.
/// @error{invalid_argument, a cycle has no delay}
[[nodiscard]] result<void> order_stages(plan& p);

}  // namespace weir::flow
