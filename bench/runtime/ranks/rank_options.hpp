// SPDX-License-Identifier: Apache-2.0
/// @file
/// Options of the engine of a rank in the programs over worlds.
#pragma once

#include "weir/runtime/engine_options.hpp"

namespace weir::bench {

/// Returns the options of an engine with one worker and a small window: some steps ahead
/// hide the way of messages, and each submission looks for conflicts with fewer tasks.
inline runtime::engine_options options_of_rank() {
  runtime::engine_options options;
  options.workers = 1;
  options.window = 128;
  return options;
}

}  // namespace weir::bench
