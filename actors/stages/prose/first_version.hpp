// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checkpoints of runs that the Conductor has driven, for the stages of a preset.
#pragma once

#include "weir/pipeline/graph.hpp"
#include "weir/pipeline/host/image.hpp"
#include "weir/storage/checkpoint.hpp"

namespace weir::actors {

/// Returns the image from which the stages of `preset_of` continue the run of a
/// checkpoint. Sections get other names; their bytes stay.
/// @param stages  Graph of the preset, whose identity the image gets.
/// @error{not_found, a section is missing} @error{corrupt, a section is damaged}
/// @error{unsupported_version, a section was written by a later version}
[[nodiscard]] result<flow::image> image_of_run(const storage::checkpoint& from,
                                               const flow::graph& stages);

}  // namespace weir::actors
