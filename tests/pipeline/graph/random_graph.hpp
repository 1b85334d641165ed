// SPDX-License-Identifier: Apache-2.0
/// @file
/// Random graphs that the check accepts, unless a loop waits for itself.
#pragma once

#include <cstdint>

#include "graph_builder.hpp"

namespace weir::test {

/// Returns a graph of 3 to 14 stages with forks, joins, batches, stages that hold or
/// forward items, late stages and edges with delays. All windows are small.
[[nodiscard]] graph_builder random_graph(std::uint64_t seed);

}  // namespace weir::test
