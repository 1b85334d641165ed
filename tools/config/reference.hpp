// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tables of settings as text for people and programs.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/settings.hpp"

namespace weir::tools {

/// A setting with the value that it has by default.
struct listed_setting {
  const setting_info* info = nullptr;
  setting_value preset;
};
using setting_list = std::vector<listed_setting>;

/// All settings of a table, in its order. The table outlives the list.
template <class Owner>
[[nodiscard]] setting_list list_settings(const settings_table<Owner>& table) {
  const Owner untouched{};
  setting_list all;
  for (const setting<Owner>& s : table.entries()) {
    all.push_back({&s, s.get(untouched)});
  }
  return all;
}

/// The setting of a name, or all settings of a group: "model" means all "model.*".
/// @error{unknown_key, no setting and no group has this name; the nearest is named}
[[nodiscard]] result<setting_list> select_settings(std::span<const listed_setting> all,
                                                   std::string_view name);

/// For a terminal: each setting with its default, its range and its documentation.
[[nodiscard]] std::string settings_text(std::span<const listed_setting> settings);
/// A JSON array with an object per setting.
[[nodiscard]] std::string settings_json(std::span<const listed_setting> settings);
/// The page docs/settings.md: a table per group.
[[nodiscard]] std::string settings_page(std::span<const listed_setting> settings);
/// The names of the settings, or of those that a resume may change, in indented lines.
[[nodiscard]] std::string settings_names(std::span<const listed_setting> settings,
                                         bool may_change_only);

}  // namespace weir::tools
