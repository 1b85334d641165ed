// SPDX-License-Identifier: Apache-2.0
/// @file
/// Elements of tensors as text.
#pragma once

#include <cstddef>
#include <string>

#include "weir/base/bytes.hpp"
#include "weir/base/dtype.hpp"

namespace weir::tools {

/// Element `index` of `bytes` in native byte order as JSON: a number, true or false, [re,
/// im] for complex, text for what JSON has no number for. Reals are the shortest text
/// that reads back the same.
/// @pre the element lies within `bytes`
[[nodiscard]] std::string element_json(dtype type, bytes_view bytes, std::size_t index);

}  // namespace weir::tools
