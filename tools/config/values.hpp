// SPDX-License-Identifier: Apache-2.0
/// @file
/// Values of a configuration with the place they came from; TOML in, nothing else known
/// of it outside.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "weir/base/error.hpp"

namespace weir::tools {

struct config_value;
using config_list = std::vector<config_value>;

/// One value of a configuration. `where` is "file:line:column" or "--set key".
struct config_value {
  /// The last alternative holds dates, times and tables, which no key takes, as the name
  /// of their kind.
  struct other {
    std::string kind;
  };
  std::variant<std::int64_t, double, bool, std::string, config_list, other> data;
  std::string where;

  /// "integer 7", "string \"abc\"", "an array", ...: for messages.
  [[nodiscard]] std::string describe() const;
};

/// A dotted key and its value.
using config_entry = std::pair<std::string, config_value>;

/// All keys of a TOML text, tables flattened to dotted keys, in the order of the file.
/// @param name  Name of the file in places, as the user wrote it.
/// @error{invalid_argument, not TOML; with file, line and column}
[[nodiscard]] result<std::vector<config_entry>> parse_toml(std::string_view text,
                                                           const std::string& name);

/// `key=value` of the command line: the value is read as TOML, and what is not TOML is a
/// string.
/// @error{invalid_argument, no "=" or no key}
[[nodiscard]] result<config_entry> parse_assignment(std::string_view assignment);

/// A TOML basic string with its quotes.
[[nodiscard]] std::string toml_quote(std::string_view text);

}  // namespace weir::tools
