// SPDX-License-Identifier: Apache-2.0
/// @file
/// A run's settings as others need them: frozen keys as text, the model's shape, the
/// stream's geometry.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conductor/chunk_plan.hpp"
#include "conductor/conductor_state.hpp"
#include "weir/actors/orders.hpp"
#include "weir/actors/run.hpp"

namespace weir::actors {

/// Token ids of a corpus of so many files: 257 where end-of-text can occur, else 256.
[[nodiscard]] std::uint32_t vocabulary_of(const run_config& config, std::size_t files);

/// "key = value" lines of all frozen keys and of the vocabulary: section CONFIG.
[[nodiscard]] std::string config_text(const run_config& config, std::uint32_t vocab);
/// Value of a key in such a text. @error{corrupt, there is no such line}
[[nodiscard]] result<std::string> value_in(std::string_view text, std::string_view key);
/// Same, as an unsigned number. @error{corrupt, it is none}
[[nodiscard]] result<std::uint64_t> number_in(std::string_view text,
                                              std::string_view key);

/// Compares a configuration with the one that a checkpoint was written under.
/// @error{config_mismatch, names the first key that differs and both values}
[[nodiscard]] result<void> compare_config(std::string_view stored,
                                          const run_config& config);

[[nodiscard]] models::prose_config model_of(const run_config& config,
                                            std::uint32_t vocab);
/// The model that a stored text describes, for one lane more or less than it had.
/// @error{corrupt, a line is missing or no number}
[[nodiscard]] result<models::prose_config> model_in(std::string_view text);
/// "key = value" lines of a model's shape: what `model_in` needs.
[[nodiscard]] std::string model_text(const models::prose_config& model);

[[nodiscard]] storage::stream_config stream_of(const run_config& config);
[[nodiscard]] conductor_state::settings conductor_of(const run_config& config);
/// Pulses that the Build budget takes at most: the length of the rate schedule.
[[nodiscard]] std::uint64_t total_updates_of(const run_config& config);

}  // namespace weir::actors
