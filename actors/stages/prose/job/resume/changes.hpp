// SPDX-License-Identifier: Apache-2.0
/// @file
/// The settings that a resumed run may change: which changes are accepted, which need
/// another setting, and which none allows.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stages/prose/chunk_plan.hpp"
#include "weir/actors/run.hpp"

namespace weir::actors {

/// Key under which a history names the length of a text that has grown.
inline constexpr std::string_view grown_text_key = "stream.tokens";

/// Returns the error for a setting that cannot have another value.
/// @param expected, found  Values as texts of the stored configuration.
[[nodiscard]] error refused_change(std::string_view key, const std::string& expected,
                                   const std::string& found);

/// Checks that changes which need the policy `resume.contexts` have it.
/// @error{config_mismatch, names the setting and the values of the policy}
[[nodiscard]] result<void> check_contexts(const std::vector<storage::run_change>& changes,
                                          const run_config& config);
/// Checks that another order of the phases begins with the steps that the run has begun.
/// @param steps  What each step has used.
/// @error{config_mismatch, a step that was begun is another phase now}
[[nodiscard]] result<void> check_order(const std::vector<storage::run_change>& changes,
                                       const std::vector<phase_use>& steps);
/// Returns whether the contexts in a checkpoint are replaced by others.
[[nodiscard]] bool needs_contexts(const std::vector<storage::run_change>& changes,
                                  const run_config& config);
/// Returns whether the schedule of the step size follows from other numbers than before.
[[nodiscard]] bool replans(const std::vector<storage::run_change>& changes);

}  // namespace weir::actors
