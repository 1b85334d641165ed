// SPDX-License-Identifier: Apache-2.0
/// @file
/// The pulse: one step of the Conductor, captured once and never changed, and which
/// levels step in it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "weir/base/error.hpp"

namespace weir::models {

/// What a pulse does besides the forward work, which is the same in all three.
enum class pulse_phase : std::uint8_t {
  build,   ///< learns: backward work and a step of the active levels
  test,    ///< predicts and scores only
  stream,  ///< as test, without an end
};

/// "build", "test", "stream".
[[nodiscard]] std::string_view name_of(pulse_phase phase) noexcept;

/// One step of the Conductor. A value: made before the chunk is processed, the same for
/// forward, backward, step and observers.
struct pulse {
  std::uint64_t id = 0;  ///< pulses before this one, in all phases
  pulse_phase phase = pulse_phase::build;
  std::uint32_t active_levels =
      0;  ///< bit l: parameters of level l step at the end of this pulse
  std::uint64_t update = 0;  ///< Build pulses before this one: place in the rate schedule
  std::uint64_t total_updates =
      0;  ///< Build pulses of the whole budget, fixed at the start
};

/// Levels whose parameters step in a pulse that covers tokens [from, to) of a lane: those
/// whose frequency C has floor(to / C) > floor(from / C), in Build pulses that
/// `outer_period` lets through.
///
/// `outer_period` holds one period in pulses per level, or is empty for 1 everywhere:
/// level l steps only in pulses whose `update` + 1 is a multiple of its period.
/// @threads{pure}
/// @source{Context stream design, 1.3}
[[nodiscard]] std::uint32_t active_mask(std::span<const std::uint64_t> frequencies,
                                        std::uint64_t from, std::uint64_t to,
                                        std::span<const std::uint64_t> outer_period = {},
                                        std::uint64_t update = 0) noexcept;

}  // namespace weir::models
