// SPDX-License-Identifier: Apache-2.0
/// @file
/// The pulse, which is one step of the Conductor as a value, and the rule by which levels
/// step in it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "weir/base/error.hpp"

namespace weir::models {

/// Phase of a run. The forward work of a pulse is the same in all phases.
enum class pulse_phase : std::uint8_t {
  build,   ///< the model learns: backward work, and steps of the active levels
  test,    ///< the model predicts and is scored; parameters do not change
  stream,  ///< as `test`, but without an end
};

/// Returns the name of a phase: "build", "test" or "stream".
/// @threads{pure}
[[nodiscard]] std::string_view name_of(pulse_phase phase) noexcept;

/// One step of the Conductor. The value is made before its chunks are processed and never
/// changes; forward work, backward work, the step and all observers see the same value.
struct pulse {
  std::uint64_t id = 0;  ///< number of pulses before this one, in all phases
  /// Phase of the run that the pulse belongs to.
  pulse_phase phase = pulse_phase::build;
  /// Bit l: the parameters of level l step at the end of this pulse.
  std::uint32_t active_levels = 0;
  /// Number of Build pulses before this one, which is its place in the rate schedule.
  std::uint64_t update = 0;
  /// Number of Build pulses in the whole budget, which is fixed when the run begins.
  std::uint64_t total_updates = 0;
  /// The result of the pulse has the prediction and the loss of every token. The state
  /// does not depend on it.
  bool keeps_predictions = false;
};

/// Returns the mask of the levels that step in a Build pulse over tokens [from, to).
///
/// Level l with frequency C, in tokens, is in the mask if a multiple of C lies in the
/// tokens: floor(to / C) > floor(from / C). If `outer_period` has an entry for the level,
/// `update` + 1 must also be a multiple of that entry.
/// @param frequencies  Frequency of each level, in tokens; a level of frequency 0 never
/// steps. Levels behind the 32nd do not count.
/// @param from  Position of the lane before the pulse, in tokens.
/// @param to  Position of the lane after the pulse, in tokens.
/// @param outer_period  Period of each level in Build pulses; empty means 1 for all.
/// @param update  `pulse::update` of the pulse.
/// @threads{pure}
/// @source{Context stream design, 1.3}
[[nodiscard]] std::uint32_t active_mask(std::span<const std::uint64_t> frequencies,
                                        std::uint64_t from, std::uint64_t to,
                                        std::span<const std::uint64_t> outer_period = {},
                                        std::uint64_t update = 0) noexcept;

}  // namespace weir::models
