// SPDX-License-Identifier: Apache-2.0
/// @file
/// Options of the engine of a rank in the programs over worlds.
#pragma once

#include <bit>
#include <cstdint>

#include "weir/runtime/engine_options.hpp"

namespace weir::bench {

/// Returns the options of an engine with one worker and a window of about eight steps,
/// from the number of tiles that a rank computes in a step. Some steps ahead hide the way
/// of messages, and each submission looks for conflicts with few tasks.
inline runtime::engine_options options_of_rank(std::int64_t tiles) {
  runtime::engine_options options;
  options.workers = 1;
  options.window = std::bit_ceil(static_cast<unsigned>(8 * tiles));
  return options;
}

}  // namespace weir::bench
