// SPDX-License-Identifier: Apache-2.0
/// @file
/// Times of items: how long they take from their source until they are durable, and, for
/// a trace, when each stage took each item and let it go.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weir/pipeline/counters.hpp"
#include "weir/runtime/trace.hpp"

namespace weir::flow {

/// The latencies of the items of one sink. Between two checkpoints it keeps the times of
/// at most 4,096 items; of more items it keeps every second, fourth, ... one, and counts
/// each for so many.
/// @threads{thread-compatible}
class sink_latency {
 public:
  /// Notes that the sink has written an item that its source delivered at
  /// `left_source_ns`.
  void written(std::int64_t left_source_ns) {
    // Not every item is a sample.
    if (open_.left_out != 0) {
      --open_.left_out;
      return;
    }
    take_sample(left_source_ns);
  }
  /// Notes that the sink can lose none of the items so far.
  void settled();
  /// Notes that a checkpoint holds the items before the last `settled`.
  void durable(std::int64_t now_ns);
  /// Returns the latencies of all durable items.
  [[nodiscard]] const latency_counts& counts() const noexcept { return counts_; }

 private:
  struct sample {
    std::vector<std::int64_t> times;  ///< times of every `stride`-th item
    std::uint64_t stride = 1;
    std::uint64_t left_out = 0;  ///< items up to the next sample
  };
  static void thin_out(sample& s);
  void take_sample(std::int64_t left_source_ns);

  sample open_;
  sample settled_;
  latency_counts counts_;
};

/// Records when stages took items and let them go: the first and the newest ones.
/// @threads{thread-compatible}
class item_recorder {
 public:
  /// Records at most `max_items` items at the start of the run, and as many at its end.
  explicit item_recorder(std::size_t max_items) : max_items_(max_items) {}
  /// Notes one item of a stage. @units{nanoseconds of the monotonic clock}
  void record(std::uint32_t stage, std::uint64_t seq, std::int64_t start_ns,
              std::int64_t end_ns);
  /// Adds the items to a trace, on a line for each stage, with arrows between the stages
  /// of one numbering. @param names Names of the stages. @param numberings Their
  /// numberings.
  void add_to(runtime::trace& to, const std::vector<std::string>& names,
              const std::vector<std::uint32_t>& numberings) const;

 private:
  struct stretch {
    std::uint32_t stage;
    std::uint64_t seq;
    std::int64_t start_ns;
    std::int64_t end_ns;
  };
  std::size_t max_items_;
  std::vector<stretch> first_;
  std::vector<stretch> newest_;  ///< a ring once it is full
  std::size_t oldest_ = 0;
};

}  // namespace weir::flow
