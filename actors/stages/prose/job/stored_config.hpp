// SPDX-License-Identifier: Apache-2.0
/// @file
/// The stored configuration of a run or a model: lines "key = value". A checkpoint holds
/// the settings of which a resumed run must know the old values, because it refuses or
/// records their changes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weir/actors/run.hpp"

namespace weir::actors {

/// Returns the lines of a configuration and of its vocabulary, which are the section
/// CONFIG of a checkpoint.
[[nodiscard]] std::string config_text(const run_config& config, std::uint32_t vocab);
/// Returns the value of a key in such a text.
/// @error{corrupt, there is no line with this key}
[[nodiscard]] result<std::string> value_in(std::string_view text, std::string_view key);
/// Returns the value of a key as an unsigned number.
/// @error{corrupt, there is no line with this key, or its value is not a number}
[[nodiscard]] result<std::uint64_t> number_in(std::string_view text,
                                              std::string_view key);

/// Compares a configuration with the stored one of a run that is resumed. A setting that
/// the stored one does not have, because it was written before there was one, has its
/// default there.
/// @returns the settings that differ and may do so, without pulse and token
/// @error{config_mismatch, names the first setting that differs and may not, and both
/// values}
[[nodiscard]] result<std::vector<storage::run_change>> compare_config(
    std::string_view stored, const run_config& config);

/// Returns the lines of a model's configuration, which `model_in` reads.
[[nodiscard]] std::string model_text(const models::prose_config& model);
/// Returns the configuration of a model from a stored text of a model or a run.
/// @error{corrupt, a line is missing, or its value is outside of the setting's range}
/// @error{config_mismatch, the model was stored under other equations}
[[nodiscard]] result<models::prose_config> model_in(std::string_view text);

}  // namespace weir::actors
