// SPDX-License-Identifier: Apache-2.0
/// @file
/// Numberings of items: which items of a pipeline count together.
#pragma once

#include "weir/pipeline/graph.hpp"

namespace weir::flow {

/// Enters the numbering of the items of each stage into the plan.
///
/// All sources count in numbering 0. A stage whose items have numbers of their own opens
/// a new numbering; these follow in the order of definition. Every other stage keeps the
/// numbering of its inlets. A sink has the numbering of its inlets.
/// @param p  A plan whose stages are ordered.
/// @error{invalid_argument, the inlets of a stage have two numberings}
[[nodiscard]] result<void> number_items(plan& p);

}  // namespace weir::flow
