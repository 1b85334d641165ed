// SPDX-License-Identifier: Apache-2.0
/// @file
/// Counters of a run, per edge and per stage: plain numbers that the host's thread
/// updates and publishes from time to time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weir::flow {

/// Counters of one edge since the start of the run.
struct edge_counters {
  std::uint64_t items = 0;    ///< items that were pushed
  std::uint64_t gaps = 0;     ///< numbers without an item
  std::uint64_t bytes = 0;    ///< bytes of the items
  std::uint32_t deepest = 0;  ///< largest number of items alive at the same time
};

/// Counters of one stage since the start of the run.
struct stage_counters {
  std::uint64_t items = 0;           ///< calls of the stage
  std::uint64_t emitted = 0;         ///< items that the stage has handed on
  std::uint64_t skipped = 0;         ///< numbers that the stage has skipped
  std::uint64_t failed = 0;          ///< items whose tasks failed and that were skipped
  std::uint64_t blocked_input = 0;   ///< turns that ended without an item to take
  std::uint64_t blocked_output = 0;  ///< turns that ended without a credit
};

/// A copy of all counters.
struct run_counters {
  std::vector<stage_counters> stages;  ///< in the order of the plan's stages
  std::vector<edge_counters> edges;    ///< in the order of the plan's edges
  std::int64_t item_bytes = 0;         ///< memory of all slots now. @units{bytes}
};

}  // namespace weir::flow
