// SPDX-License-Identifier: Apache-2.0
/// @file
/// Single elements of tensors as JSON.
#pragma once

#include <cstddef>
#include <string>

#include "weir/base/bytes.hpp"
#include "weir/base/dtype.hpp"

namespace weir::tools {

/// Returns an element as JSON: a number, `true` or `false`, or [real, imaginary].
///
/// Reals are the shortest text that reads back as the same number. NaN and infinities,
/// which JSON has no numbers for, are the strings "nan", "inf" and "-inf".
/// @param bytes  Elements in native byte order, without alignment.
/// @param index  Number of the element, which must lie within `bytes`.
/// @threads{safe to call concurrently}
[[nodiscard]] std::string element_json(dtype type, bytes_view bytes, std::size_t index);

}  // namespace weir::tools
