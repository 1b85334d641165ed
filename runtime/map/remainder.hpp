// SPDX-License-Identifier: Apache-2.0
/// @file
/// The bytes of an older access that a write leaves to it.
#pragma once

#include "weir/runtime/tensor.hpp"

namespace weir::runtime {

/// Takes blocks of the outermost progression that `by` covers away from `of`, if they are
/// its first or its last ones: what is left is a footprint again, and all bytes that go
/// are bytes of `by`. True if nothing is left.
/// @pre not empty, of one storage; `of` is not dense
/// @threads{pure}
[[nodiscard]] bool cut(footprint& of, const footprint& by) noexcept;

}  // namespace weir::runtime
