// SPDX-License-Identifier: Apache-2.0
/// @file
/// The description of the stages of a Python file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/pipeline/stage_info.hpp"

namespace weir::actors {

/// Reads what `python3 -m weir.describe` prints.
/// @param text  JSON.
/// @param file  Path of the described file, for messages.
/// @error{invalid_argument, the file has a mistake; the message names its line. Other
/// codes that the description gives}
/// @error{corrupt, the text is no description}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::vector<flow::stage_info>> read_description(
    std::string_view text, const std::string& file);

}  // namespace weir::actors
