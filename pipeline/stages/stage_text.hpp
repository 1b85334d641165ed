// SPDX-License-Identifier: Apache-2.0
/// @file
/// A stage with its settings as one line of text.
#pragma once

#include <string>
#include <string_view>

#include "weir/pipeline/catalog.hpp"

namespace weir::flow {

/// A stage by name, with settings.
struct stage_text {
  std::string name;         ///< full name of the stage
  given_settings settings;  ///< settings by name
};

/// Reads a line such as `tgm.read path="a b.tgm" index=1`. Values are integers, numbers,
/// `true`, `false` or texts; quotes keep spaces together and make any value a text.
/// @error{invalid_argument, the line has no name, a setting has no value, or quotes do
/// not end} @error{already_exists, a setting stands there twice}
/// @threads{safe to call concurrently}
[[nodiscard]] result<stage_text> parse_stage_text(std::string_view line);

}  // namespace weir::flow
