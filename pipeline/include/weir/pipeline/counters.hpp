// SPDX-License-Identifier: Apache-2.0
/// @file
/// Counters of a run, per edge and per stage: plain numbers that the host's thread
/// updates and publishes from time to time.
/// @threads{values}
#pragma once

#include <algorithm>
#include <array>
#include <bit>
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

/// Numbers of items by latency: entry k counts the items that took at least 2^k and less
/// than 2^(k+1) nanoseconds.
struct latency_counts {
  std::array<std::uint64_t, 64> items{};  ///< counts by logarithm of the latency
  std::uint64_t largest_ns = 0;           ///< largest latency that was seen

  /// Counts `count` items of one latency, at least 1 ns.
  void add(std::uint64_t latency_ns, std::uint64_t count) noexcept {
    items[static_cast<std::size_t>(std::bit_width(latency_ns)) - 1] += count;
    largest_ns = std::max(largest_ns, latency_ns);
  }
  /// Returns the latency that a share of all items did not exceed, as the upper end of
  /// its entry; 0 if there are no items. @param share From 0 to 1.
  /// @units{nanoseconds}
  [[nodiscard]] std::uint64_t quantile_ns(double share) const noexcept;
};

/// Counters of one stage since the start of the run.
struct stage_counters {
  std::uint64_t items = 0;           ///< calls of the stage
  std::uint64_t emitted = 0;         ///< items that the stage has handed on
  std::uint64_t skipped = 0;         ///< numbers that the stage has skipped
  std::uint64_t failed = 0;          ///< items whose tasks failed and that were skipped
  std::uint64_t blocked_input = 0;   ///< turns that ended without an item to take
  std::uint64_t blocked_output = 0;  ///< turns that ended without a credit
  /// Time inside the kernels of its tasks, all threads together; of a source, a blocking
  /// stage or a sink the time inside its functions. Stages from number 62 on share the
  /// time of all of them. An estimate if the kernels take less than 250 ns each.
  /// @units{nanoseconds}
  std::int64_t busy_ns = 0;
};

/// Where the credits of one edge are. At any time `window` is the sum of the others.
struct edge_credits {
  std::uint32_t window = 0;   ///< credits of the edge
  std::uint32_t free = 0;     ///< credits for items that may be pushed
  std::uint32_t waiting = 0;  ///< items and gaps that the consumer has not taken
  std::uint32_t held = 0;     ///< items that calls of the consumer hold
};

/// A copy of all counters.
struct run_counters {
  std::vector<stage_counters> stages;  ///< in the order of the plan's stages
  std::vector<edge_counters> edges;    ///< in the order of the plan's edges
  std::int64_t item_bytes = 0;         ///< memory of all slots now. @units{bytes}
  /// Time from a source to the checkpoint, for each sink in the order of the stages.
  std::vector<latency_counts> latencies;
};

}  // namespace weir::flow
