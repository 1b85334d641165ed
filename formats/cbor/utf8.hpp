// SPDX-License-Identifier: Apache-2.0
/// @file
/// Whether bytes are UTF-8.
#pragma once

#include <string_view>

namespace weir::formats {

/// Shortest forms only, no surrogates, nothing above U+10FFFF. @source{RFC 3629}
[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

}  // namespace weir::formats
