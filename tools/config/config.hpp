// SPDX-License-Identifier: Apache-2.0
/// @file
/// From a TOML file and `--set` to the configuration of a run, and back.
#pragma once

#include <span>
#include <string>

#include "values.hpp"
#include "weir/actors/run.hpp"
#include "weir/base/error.hpp"

namespace weir::tools {

/// Sets one key. Relative paths in `stream.path` are taken from `base_folder`.
/// @error{unknown_key, with the nearest known name and the place}
/// @error{invalid_argument, a value of the wrong kind or out of range, with the place}
[[nodiscard]] result<void> apply_entry(actors::run_config& config,
                                       const config_entry& entry,
                                       const std::string& base_folder);

/// Configuration of a run: defaults, then the file, then each `key=value`.
///
/// Relative paths of the file begin at its folder, those of an assignment at the working
/// folder; both become absolute, so that the result means the same anywhere.
/// @error{not_found, no such file; as `parse_toml`, `parse_assignment` and `apply_entry`}
[[nodiscard]] result<actors::run_config> load_config(const std::string& path,
                                                     std::span<const std::string> sets);

/// Configuration for continuing a run: that of its folder with those assignments that may
/// differ.
/// @error{config_mismatch, an assignment changes a key that is fixed; names it and both
/// values}
/// @error{as load_config}
[[nodiscard]] result<actors::run_config> load_resume_config(
    const std::string& folder, std::span<const std::string> sets);

/// TOML of all keys, each with its line of documentation; `load_config` reads it back.
[[nodiscard]] std::string to_toml(const actors::run_config& config);

}  // namespace weir::tools
