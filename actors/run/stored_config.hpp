// SPDX-License-Identifier: Apache-2.0
/// @file
/// The configuration that a checkpoint holds: "key = value" lines of all settings that a
/// resumed run may not change.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "weir/actors/run.hpp"

namespace weir::actors {

/// The lines of a configuration and of its vocabulary: section CONFIG.
[[nodiscard]] std::string config_text(const run_config& config, std::uint32_t vocab);
/// Value of a key in such a text. @error{corrupt, there is no such line}
[[nodiscard]] result<std::string> value_in(std::string_view text, std::string_view key);
/// Value of a key as an unsigned number. @error{corrupt, there is no such line, or no
/// number in it}
[[nodiscard]] result<std::uint64_t> number_in(std::string_view text,
                                              std::string_view key);

/// Compares a configuration with the one that a checkpoint was written under.
/// @error{config_mismatch, names the first key that differs and both values}
[[nodiscard]] result<void> compare_config(std::string_view stored,
                                          const run_config& config);

/// The lines of a model: what `model_in` needs.
[[nodiscard]] std::string model_text(const models::prose_config& model);
/// The model that a stored text describes, with all its lanes.
/// @error{corrupt, a line is missing, or its value is none that the setting takes}
/// @error{config_mismatch, the model was stored under other equations}
[[nodiscard]] result<models::prose_config> model_in(std::string_view text);

}  // namespace weir::actors
