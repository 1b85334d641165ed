// SPDX-License-Identifier: Apache-2.0
/// @file
/// JSON that a verb prints.
#pragma once

#include <string>

namespace weir::tools {

/// Returns JSON as one line. Paths may have bytes that are not UTF-8; JSON cannot hold
/// them, so each is replaced by U+FFFD.
/// @param value  A value of nlohmann's library.
template <class Json>
[[nodiscard]] std::string json_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace weir::tools
