// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads the configuration of a run from a TOML file and `--set`, and writes it as TOML.
/// @threads{all functions: safe to call concurrently}
#pragma once

#include <span>
#include <string>

#include "values.hpp"
#include "weir/actors/run.hpp"
#include "weir/base/error.hpp"

namespace weir::tools {

/// Sets one key of a configuration.
/// @param base_folder  Folder from which relative paths in `stream.path` begin.
/// @error{unknown_key, no key has this name; the message suggests the nearest one}
/// @error{invalid_argument, the value has the wrong kind or is out of range}
[[nodiscard]] result<void> apply_entry(actors::run_config& config,
                                       const config_entry& entry,
                                       const std::string& base_folder);

/// Reads the configuration of a run: the defaults, changed by the file, changed by the
/// assignments in their order.
///
/// Relative paths of the file begin at its folder, those of an assignment at the working
/// folder. Both become absolute, so that the result does not depend on the working
/// folder.
/// @param sets  Assignments KEY=VALUE.
/// @error{not_found, io, the file cannot be read}
/// @error{unknown_key, invalid_argument, as of `parse_toml`, `parse_assignment` and
/// `apply_entry`}
[[nodiscard]] result<actors::run_config> load_config(const std::string& path,
                                                     std::span<const std::string> sets);

/// Reads the configuration of a run folder, changed by the assignments, to continue it.
/// @param sets  Assignments KEY=VALUE.
/// @error{config_mismatch, an assignment changes a key that is fixed once a run has
/// begun}
/// @error{not_found, io, unknown_key, invalid_argument, as of `load_config`}
[[nodiscard]] result<actors::run_config> load_resume_config(
    const std::string& folder, std::span<const std::string> sets);

/// Returns a configuration as TOML: all keys, each behind its line of documentation.
/// `load_config` of the text gives the same configuration.
[[nodiscard]] std::string to_toml(const actors::run_config& config);

}  // namespace weir::tools
