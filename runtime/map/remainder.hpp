// SPDX-License-Identifier: Apache-2.0
/// @file
/// The bytes that a write leaves to an older strided access.
///
/// Only strided accesses need this. For dense ones `access_entry::take` does the same
/// with two comparisons.
#pragma once

#include "weir/runtime/tensor.hpp"

namespace weir::runtime {

/// Removes the blocks of the outermost progression of `of` that `by` covers, if these are
/// its first or its last blocks, so that the rest is a footprint again. Returns true if
/// nothing is left. Every removed byte is a byte of `by`.
/// @pre both are not empty and of one storage; `of` is not dense
/// @threads{pure}
[[nodiscard]] bool cut(footprint& of, const footprint& by) noexcept;

}  // namespace weir::runtime
