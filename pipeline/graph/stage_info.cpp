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

}  // namespace weir::flow
