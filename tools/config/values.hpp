// SPDX-License-Identifier: Apache-2.0
/// @file
/// TOML to values of settings and back. Only the source beside this header knows toml++.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/base/settings/value.hpp"

namespace weir::tools {

/// A dotted key, its value, and where both stand: "file:line:column" or "--set key".
struct config_entry {
  std::string key;
  setting_value value;
  std::string where;
};

/// All keys of a TOML text, tables flattened to dotted keys, in the order of the file.
/// @param name  Name of the file in places, as the user wrote it.
/// @error{invalid_argument, not TOML; with file, line and column}
[[nodiscard]] result<std::vector<config_entry>> parse_toml(std::string_view text,
                                                           const std::string& name);

/// `key=value` of the command line: the value is read as TOML, and what is not TOML is a
/// string.
/// @error{invalid_argument, no "=" or no key}
[[nodiscard]] result<config_entry> parse_assignment(std::string_view assignment);

/// A value as TOML; `parse_toml` reads it back.
[[nodiscard]] std::string toml_text(const setting_value& value);

}  // namespace weir::tools
