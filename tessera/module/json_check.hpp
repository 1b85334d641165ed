// SPDX-License-Identifier: Apache-2.0
/// @file
/// Check that a text is a single JSON value.
///
/// The explanation of a module is embedded in other JSON, which a faulty one would break.
#pragma once

#include <string_view>

namespace weir::tessera {

/// Returns true for a single value of valid UTF-8, nested at most 64 deep, with or
/// without white space around it. Numbers beyond the range of a double and unpaired
/// surrogates are refused, as most readers refuse them. @source{RFC 8259}
[[nodiscard]] bool is_json(std::string_view text);

}  // namespace weir::tessera
