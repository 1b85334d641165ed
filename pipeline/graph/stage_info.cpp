// SPDX-License-Identifier: Apache-2.0
/// @file
/// Look-ups in the description of a stage.
///
/// Ports are counted in two ways: by their index in `ports`, which edges of a graph use,
/// and by their number among inlets or outlets, which a run uses.
#include "weir/pipeline/stage_info.hpp"

#include <algorithm>

namespace weir::flow {

/// Returns the index of a port, or -1.
int stage_info::find_port(std::string_view port) const noexcept {
  for (std::size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].name == port) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

std::size_t stage_info::inlets() const noexcept {
  return static_cast<std::size_t>(std::ranges::count(ports, true, &port_info::inlet));
}

std::size_t stage_info::outlets() const noexcept {
  return ports.size() - inlets();
}

/// @pre `number` is below `outlets()`.
const port_info& stage_info::outlet(std::size_t number) const noexcept {
  // The outlets are counted from the first one.
  auto found = std::ranges::find(ports, false, &port_info::inlet);
  for (; number != 0; --number) {
    found = std::find_if(found + 1, ports.end(), [](const auto& p) { return !p.inlet; });
  }
  return *found;
}

std::size_t stage_info::dead_letters() const noexcept {
  return static_cast<std::size_t>(
      std::ranges::count(ports, true, &port_info::dead_letter));
}

/// Notes a value for the identity, unless it may change, and the paths in it.
void add_value(stage_info& info, const setting_info& setting,
               const setting_value& value) {
  if (!setting.may_change) {
    info.frozen.emplace_back(setting.name, value.describe());
  }
  if (setting.path == path_use::none) {
    return;
  }
  // A list of paths is as good as several settings.
  if (const auto* text = std::get_if<std::string>(&value.data)) {
    info.paths.push_back({setting.name, *text, setting.path});
  } else if (const auto* list = std::get_if<setting_value::list>(&value.data)) {
    for (const setting_value& one : *list) {
      if (const auto* path = std::get_if<std::string>(&one.data)) {
        info.paths.push_back({setting.name, *path, setting.path});
      }
    }
  }
}

/// Adds an outlet per inlet for its failed items. Calling it twice adds nothing.
void add_dead_letters(stage_info& info) {
  const std::vector<port_info> before = info.ports;
  // Outlets for failed items stand behind all others, one per inlet.
  for (const port_info& one : before) {
    if (one.inlet && info.dead_letters() < info.inlets()) {
      info.ports.push_back({"failed_" + one.name, one.type, false, true});
    }
  }
}

}  // namespace weir::flow
