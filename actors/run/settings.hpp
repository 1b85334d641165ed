// SPDX-License-Identifier: Apache-2.0
/// @file
/// The settings of a run as its parts need them: the model's, the stream's and the
/// Conductor's.
#pragma once

#include <cstdint>
#include <string_view>

#include "conductor/conductor_state.hpp"
#include "weir/actors/run.hpp"

namespace weir::actors {

/// A setting of the model that no user sets: the run derives it. `key` is the setting of
/// the run that it follows; there is none for the vocabulary, which the corpus decides,
/// but all four are stored under their keys.
struct derived_setting {
  std::string_view name;
  const char* key;
};
inline constexpr derived_setting derived_settings[] = {{"vocab", "model.vocab"},
                                                       {"seed", "seed"},
                                                       {"lanes", "stream.lanes"},
                                                       {"max_chunk", "stream.chunk"}};

/// Token ids of a corpus of so many files: 257 where end-of-text can occur, else 256.
[[nodiscard]] std::uint32_t vocabulary_of(const run_config& config, std::size_t files);

/// The model of a run whose tokens are below `vocab`.
[[nodiscard]] models::prose_config model_of(const run_config& config,
                                            std::uint32_t vocab);
/// The stream of a run, with the frequencies of its model.
[[nodiscard]] storage::stream_config stream_of(const run_config& config);
[[nodiscard]] conductor_state::settings conductor_of(const run_config& config);
/// Pulses that the Build budget takes at most: the length of the rate schedule.
[[nodiscard]] std::uint64_t total_updates_of(const run_config& config);

}  // namespace weir::actors
