// SPDX-License-Identifier: Apache-2.0
/// @file
/// The bytes that a write leaves to an older strided access.
///
/// Only strided accesses need this. For dense ones `access_entry::take` does the same
/// with two comparisons.
#pragma once

#include "weir/runtime/tensor.hpp"

namespace weir::runtime {

/// Removes the blocks of the outermost progression of `target` that `cover` covers, if
/// these are its first or its last blocks, so that the rest is a footprint again. Returns
/// true if nothing is left. Every removed byte is a byte of `cover`.
/// @pre both are not empty and of one storage; `target` is not dense
/// @threads{pure}
[[nodiscard]] bool cut(footprint& target, const footprint& cover) noexcept;

}  // namespace weir::runtime
