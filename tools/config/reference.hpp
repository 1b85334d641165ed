// SPDX-License-Identifier: Apache-2.0
/// @file
/// The reference of settings, generated from their tables.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/settings.hpp"

namespace weir::tools {

/// A setting and its default.
struct listed_setting {
  const setting_info* info = nullptr;  ///< name, documentation, range and rule
  setting_value preset;                ///< its default
};
/// Settings in the order of their table.
using setting_list = std::vector<listed_setting>;

/// Returns all settings of a table, which must outlive the list.
template <class Owner>
[[nodiscard]] setting_list list_settings(const settings_table<Owner>& table) {
  const Owner untouched{};
  setting_list all;
  for (const setting<Owner>& s : table.entries()) {
    all.push_back({&s, s.get(untouched)});
  }
  return all;
}

/// Returns the settings of a run, those of named sources last.
[[nodiscard]] setting_list settings_of_run();

/// Returns the setting of a name, or all settings of a group: "model" selects "model.*".
/// @error{unknown_key, no setting and no group has this name; the message suggests the
/// nearest setting}
[[nodiscard]] result<setting_list> select_settings(std::span<const listed_setting> all,
                                                   std::string_view name);

/// Returns text for a terminal: documentation, range and default of each setting.
[[nodiscard]] std::string settings_text(std::span<const listed_setting> settings);
/// Returns a JSON array with one object for each setting.
[[nodiscard]] std::string settings_json(std::span<const listed_setting> settings);
/// Returns the page docs/settings.md, with one table for each group.
[[nodiscard]] std::string settings_page(std::span<const listed_setting> settings);
/// Returns the names of the settings, or of those that may change at a resume, in
/// indented lines.
[[nodiscard]] std::string settings_names(std::span<const listed_setting> settings,
                                         bool may_change_only);

}  // namespace weir::tools
