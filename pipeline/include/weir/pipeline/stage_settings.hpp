// SPDX-License-Identifier: Apache-2.0
/// @file
/// Settings of stages whose ports depend on them. Such a stage implements `stage_object`
/// itself, and its factory in the catalog reads the settings before it knows the ports.
#pragma once

#include <utility>

#include "weir/base/settings.hpp"
#include "weir/pipeline/catalog.hpp"

namespace weir::flow {

/// Reads the settings of a stage by name and adds their description to the stage.
/// @param info   Receives the settings, and the values that a resumed run must have too.
/// @param table  Settings of the stage.
/// @error{unknown_key, no setting has one of the names; the message suggests the nearest}
/// @error{invalid_argument, a value is refused or a required setting is missing}
/// @threads{thread-compatible}
template <class Settings>
[[nodiscard]] result<Settings> read_settings(stage_info& info,
                                             const settings_table<Settings>& table,
                                             const given_settings& given) {
  Settings settings{};
  for (const auto& [name, one] : given) {
    if (auto assigned = table.assign(settings, name, one.value); !assigned) {
      return std::move(assigned.error());
    }
  }
  if (auto checked = table.check(settings); !checked) {
    return std::move(checked.error());
  }
  for (const auto& one : table.entries()) {
    info.settings.push_back(one);
    if (!one.may_change) {
      info.frozen.emplace_back(one.name, one.get(settings).describe());
    }
  }
  return settings;
}

}  // namespace weir::flow
