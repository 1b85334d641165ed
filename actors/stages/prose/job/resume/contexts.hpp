// SPDX-License-Identifier: Apache-2.0
/// @file
/// The contexts with which a run goes on that is resumed with another geometry.
#pragma once

#include <optional>
#include <vector>

#include "stages/prose/job/stored_run.hpp"
#include "weir/actors/run.hpp"

namespace weir::actors {

/// Returns the lane before whose context a lane goes on with; nothing if its context is
/// empty.
/// @param before  Number of lanes before.
[[nodiscard]] std::optional<std::uint32_t> context_source(context_policy policy,
                                                          std::uint32_t lane,
                                                          std::uint32_t before);
/// Returns the first position of each lane of a stream that goes on with another number
/// of lanes: that of the lane whose context it has, or 0.
/// @param before  Positions of the lanes before.
/// @param lanes   Number of lanes from now on.
[[nodiscard]] std::vector<std::uint64_t> first_positions(
    context_policy policy, const std::vector<storage::lane_state>& before,
    std::uint32_t lanes);

/// Replaces the contexts in the image of a run by those with which it goes on. Lanes that
/// keep their number keep their positions.
/// @param lanes  The lanes before, with their positions in all streams together.
/// @param vocab  Number of token ids of the model.
/// @error{corrupt, the image has no context of a lane}
/// Also returns the errors of `models::prose::create`.
[[nodiscard]] result<void> replace_contexts(flow::image& image,
                                            const std::vector<storage::lane_state>& lanes,
                                            const run_config& config,
                                            std::uint32_t vocab);

}  // namespace weir::actors
