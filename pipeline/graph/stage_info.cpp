// SPDX-License-Identifier: Apache-2.0
/// @file
/// Look-ups in the description of a stage.
#include "weir/pipeline/stage_info.hpp"

#include <algorithm>

namespace weir::flow {

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

std::size_t stage_info::dead_letters() const noexcept {
  return static_cast<std::size_t>(
      std::ranges::count(ports, true, &port_info::dead_letter));
}

void add_dead_letters(stage_info& info) {
  const std::vector<port_info> before = info.ports;
  for (const port_info& one : before) {
    if (one.inlet && info.dead_letters() < info.inlets()) {
      info.ports.push_back({"failed_" + one.name, one.type, false, true});
    }
  }
}

}  // namespace weir::flow
