// SPDX-License-Identifier: Apache-2.0
/// @file
/// Windows that are large enough for the stages at their ends.
#pragma once

#include "weir/pipeline/graph.hpp"

namespace weir::flow {

/// Enlarges the windows that would let a run stall, and adds a note for each.
///
/// The lag of an item is the number of items that must follow it before it appears: the
/// sum of `stage_info::holds` along its path. An inlet with a smaller lag than another
/// one of its stage keeps the difference alive. Section 2 of `windows.cpp` derives the
/// size of a window.
/// @param p  A plan whose items are numbered and whose types are known.
/// @error{invalid_argument, a loop holds as many items as its delay or more, or an edge
/// would need a window of more than 4096 items; an edge with a delay has neither a fixed
/// type nor a head that accepts gaps}
/// @error{out_of_range, a window would need 2^63 bytes or more}
[[nodiscard]] result<void> size_windows(plan& p);

}  // namespace weir::flow
