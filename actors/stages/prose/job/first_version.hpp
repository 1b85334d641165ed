// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checkpoints of the first version, for the stages of a run.
#pragma once

#include "stages/prose/job/stored_run.hpp"
#include "weir/pipeline/graph.hpp"
#include "weir/pipeline/host/image.hpp"

namespace weir::actors {

/// Returns the image from which the stages of `preset_of` continue a run of the first
/// version. Sections get other names; their bytes stay.
/// @param from    A run of the first version.
/// @param stages  Graph of the preset, whose identity the image gets.
/// @param name    Name of the run, which stands in the learning curve.
/// @error{invalid_argument, the curve cannot be encoded}
[[nodiscard]] result<flow::image> image_of_run(const stored_run& from,
                                               const flow::graph& stages,
                                               const std::string& name);

}  // namespace weir::actors
