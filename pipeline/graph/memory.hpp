// SPDX-License-Identifier: Apache-2.0
/// @file
/// Memory of the items of a pipeline.
#pragma once

#include "weir/pipeline/graph.hpp"

namespace weir::flow {

/// Alignment of the tensors of items. @units{bytes}
inline constexpr std::int64_t slot_alignment = 64;

/// Returns the largest number of items that are alive on an edge: its window, or fewer if
/// the type is fixed and the bytes of the window are reached earlier.
[[nodiscard]] std::int64_t max_alive(const plan& p, const graph_edge& edge);

/// Enters slots and bytes of each stage, and the bound on the memory, into the plan.
///
/// The slots of a stage are the sum of the items that it makes at a time, of the open
/// items of a late stage or of a stage that skips failed items, and of the items that are
/// alive behind it: on the edge with the largest window, and, behind a stage that
/// forwards, on the edges of that stage as well.
///
/// An outlet of a fixed type has its slots. Any other outlet has the bytes of its
/// windows, and those of one item that is being made. An outlet of type `any` of a stage
/// that forwards has no memory.
/// @param p  A plan whose windows are sized.
/// @error{invalid_argument, scratch has no fixed type}
/// @error{out_of_range, the memory exceeds 2^63-1 bytes}
[[nodiscard]] result<void> size_memory(plan& p);

}  // namespace weir::flow
