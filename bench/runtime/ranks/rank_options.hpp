// SPDX-License-Identifier: Apache-2.0
/// @file
/// Options of the engine of a rank in the programs over worlds.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "weir/runtime/engine_options.hpp"

namespace weir::bench {

/// Returns the options of an engine with one worker and a window of about eight steps,
/// but of 32 to 128 tasks. Some steps ahead hide the way of messages, and each submission
/// looks for conflicts with few tasks.
/// @param tasks  Number of tasks that a rank runs in a step.
inline runtime::engine_options options_of_rank(std::int64_t tasks) {
  runtime::engine_options options;
  options.workers = 1;
  options.window =
      std::bit_ceil(static_cast<unsigned>(std::clamp<std::int64_t>(8 * tasks, 32, 128)));
  return options;
}

}  // namespace weir::bench
