// SPDX-License-Identifier: Apache-2.0
/// @file
/// Converts TOML to values of settings and back.
/// @threads{all functions: safe to call concurrently}
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/base/settings/value.hpp"

namespace weir::tools {

/// A key with its value, as a file or the command line gives it.
struct config_entry {
  std::string key;      ///< dotted, such as "model.heads"
  setting_value value;  ///< the value as TOML has it
  std::string where;    ///< place for messages: "file:line:column" or "--set key"
};

/// A value of a TOML text, or one of its tables with all keys.
/// @threads{a value}
struct toml_item {
  std::string key;                 ///< key in the table around it; empty in a list
  setting_value value;             ///< value; foreign for tables and lists of tables
  std::string where;               ///< place for messages: "file:line:column"
  std::size_t line = 0;            ///< line, from 1; 0 if it is unknown
  bool table = false;              ///< true for a table, whose keys are in `items`
  bool list_of_tables = false;     ///< true for a list of tables, which are in `items`
  std::vector<toml_item> items{};  ///< in the order of the text
};

/// Checks that no key of a TOML text has more than 32 parts, as in `a.b.c`. A parser
/// calls itself for each part, so a key of 100,000 parts would end the program.
/// @param name  Name of the file for messages.
/// @error{invalid_argument, a key has more parts; the message gives the line}
[[nodiscard]] result<void> check_key_depth(std::string_view text,
                                           const std::string& name);

/// Parses a TOML text.
/// @param name  Name of the file for messages, as the user wrote it.
/// @returns The table of the whole text.
/// @error{invalid_argument, the text is not TOML; the message gives line and column}
[[nodiscard]] result<toml_item> parse_toml_tree(std::string_view text,
                                                const std::string& name);

/// Adds the values of a table, and of the tables in it, to a list. Their keys get the
/// keys of the tables around them as first parts.
/// @param prefix  Put before each key, such as "model.".
void add_entries(const toml_item& table, const std::string& prefix,
                 std::vector<config_entry>& to);

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
