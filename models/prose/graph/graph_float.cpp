// SPDX-License-Identifier: Apache-2.0
/// @file
/// The graph in single precision, which is the one that the model runs.
#include "prose/graph/parts.hpp"

namespace weir::models {

/// Checks instantiate it in double precision.
template class graph<float>;

}  // namespace weir::models
