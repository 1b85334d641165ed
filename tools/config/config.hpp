// SPDX-License-Identifier: Apache-2.0
/// @file
/// From a TOML file and `--set` to the configuration of a run, and back.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "values.hpp"
#include "weir/actors/run.hpp"
#include "weir/base/error.hpp"

namespace weir::tools {

/// One key of the configuration and the setting behind it.
struct config_key {
  std::string name;         ///< dotted
  std::string expected;     ///< what a value must be, for messages
  std::string doc;          ///< one line
  bool may_change = false;  ///< a resumed run may have another value
  /// Takes a value; false if it is of another kind or out of range.
  std::function<bool(actors::run_config&, const config_value&)> assign;
  /// The present value as TOML.
  std::function<std::string(const actors::run_config&)> show;
};

/// All keys, in the order in which they are written. @threads{safe to call concurrently}
[[nodiscard]] std::span<const config_key> config_keys();

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
