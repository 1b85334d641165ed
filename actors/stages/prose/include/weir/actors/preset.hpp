// SPDX-License-Identifier: Apache-2.0
/// @file
/// A run of `run.hpp` as a pipeline: the stages that do what its settings say.
#pragma once

#include <memory>

#include "weir/actors/pipelines.hpp"
#include "weir/actors/run.hpp"

namespace weir::actors {

/// A pipeline with the options of its run.
struct preset {
  std::unique_ptr<pipeline> stages;  ///< never null
  run_options options;               ///< without a control and functions
};

/// Returns the pipeline that computes the run of a configuration: the stages `text`,
/// `learn`, `accounts` and `curve`. `run` and `resume` run it, and also read checkpoints
/// of the first version.
/// @error{invalid_argument, a setting is out of range, see `check_config`}
/// @error{source_unavailable, a path of the corpus does not exist}
/// @threads{safe to call concurrently}
[[nodiscard]] result<preset> preset_of(const run_config& config);
/// Returns the same pipeline for a vocabulary that is known already.
/// @param vocab  Number of tokens: 256, or 257 if there are end-of-text tokens.
/// @param replan  The run is resumed with other budgets or another geometry.
/// @error{invalid_argument, a setting is out of range, see `check_config`}
/// @threads{safe to call concurrently}
[[nodiscard]] result<preset> preset_of(const run_config& config, std::uint32_t vocab,
                                       bool replan = false);

}  // namespace weir::actors
