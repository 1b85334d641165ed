// SPDX-License-Identifier: Apache-2.0
/// @file
/// The names of the phases, and the mask of the levels that step in a pulse.
#include "weir/models/pulse.hpp"

#include <cstddef>

namespace weir::models {

/// The names are those of reports.
std::string_view name_of(pulse_phase phase) noexcept {
  switch (phase) {
    case pulse_phase::build: return "build";
    case pulse_phase::test: return "test";
    case pulse_phase::stream: return "stream";
  }
  return "unknown";
}

/// A level steps if the position crosses a multiple of its period, and if the update is
/// the last one of its outer period.
std::uint32_t active_mask(std::span<const std::uint64_t> frequencies, std::uint64_t from,
                          std::uint64_t to, std::span<const std::uint64_t> outer_period,
                          std::uint64_t update) noexcept {
  std::uint32_t mask = 0;
  // A mask has 32 bits; there are fewer levels.
  for (std::size_t l = 0; l < frequencies.size() && l < 32; ++l) {
    const std::uint64_t c = frequencies[l];
    const std::uint64_t period = l < outer_period.size() ? outer_period[l] : 1;
    // Several crossings in one pulse are one step.
    const bool fires = c != 0 && to / c > from / c;
    const bool in_period = period <= 1 || (update + 1) % period == 0;
    if (fires && in_period) {
      mask |= std::uint32_t{1} << l;
    }
  }
  return mask;
}

}  // namespace weir::models
