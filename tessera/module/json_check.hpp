// SPDX-License-Identifier: Apache-2.0
/// @file
/// Whether text is one JSON value.
#pragma once

#include <string_view>

namespace weir::tessera {

/// True for exactly one value of valid UTF-8, nested at most 64 deep, white space around
/// it allowed. @source{RFC 8259}
[[nodiscard]] bool is_json(std::string_view text) noexcept;

}  // namespace weir::tessera
