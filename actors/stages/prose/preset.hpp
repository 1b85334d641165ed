// SPDX-License-Identifier: Apache-2.0
/// @file
/// The main job as a pipeline: the stages that do what the settings of a run say.
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
/// `learn`, `accounts` and `curve`. Its state has the bits of that run.
/// @error{invalid_argument, a setting is out of range, see `check_config`}
/// @error{not_found, a path of the corpus does not exist}
[[nodiscard]] result<preset> preset_of(const run_config& config);

}  // namespace weir::actors
