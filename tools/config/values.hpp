// SPDX-License-Identifier: Apache-2.0
/// @file
/// Converts TOML to values of settings and back.
/// @threads{all functions: safe to call concurrently}
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/base/settings/value.hpp"

namespace weir::tools {

/// A key with its value, as a file or the command line gives it.
struct config_entry {
  std::string key;  ///< dotted, such as "model.heads"
  setting_value value;
  std::string where;  ///< place for messages: "file:line:column" or "--set key"
};

/// Parses a TOML text.
/// @param name  Name of the file for messages, as the user wrote it.
/// @returns All keys in the order of the text; tables become the first parts of keys.
/// @error{invalid_argument, the text is not TOML; the message gives line and column}
[[nodiscard]] result<std::vector<config_entry>> parse_toml(std::string_view text,
                                                           const std::string& name);

/// Parses an assignment KEY=VALUE of the command line. The value is read as TOML, and as
/// a string if it is not TOML.
/// @error{invalid_argument, the key or the "=" is missing}
[[nodiscard]] result<config_entry> parse_assignment(std::string_view assignment);

/// Returns a value as TOML, which `parse_toml` reads as the same value.
[[nodiscard]] std::string toml_text(const setting_value& value);

}  // namespace weir::tools
