// SPDX-License-Identifier: Apache-2.0
/// @file
/// Allocation and initial values of the state, and norms of its memories.
#include "prose/state.hpp"

#include <algorithm>
#include <cmath>

namespace weir::models {

namespace {

/// Buffers of new memory are zero already; this is for used ones.
template <class R>
void zero(buffer<R>& b) {
  std::fill_n(b.data, b.count, R{});
}

/// The label "context" groups the memory in reports.
template <class R>
result<block_context<R>> make_block(task_runner& runner, const prose_config& config) {
  block_context<R> block;
  WEIR_TRY(block.tail,
           runner.allocate<R>((conv_taps - 1) * std::int64_t{config.width}, "context"));
  // Keys and values of the open window.
  for (std::uint32_t h = 0; h < config.heads; ++h) {
    WEIR_TRY(auto open, runner.allocate<R>(2 * window_rows * head_width, "context"));
    block.open.push_back(open);
  }
  block.memories.resize(config.frequencies.size());
  for (auto& level : block.memories) {
    for (std::uint32_t h = 0; h < config.heads; ++h) {
      // Memory and accumulator are neighbours, so one task can copy them.
      memory_state<R> m;
      constexpr int size = head_width * head_width;
      WEIR_TRY(m.both, runner.allocate<R>(2 * size, "context"));
      m.memory = m.both.sub(0, size);
      m.accumulator = m.both.sub(size, size);
      WEIR_TRY(m.open, runner.allocate<R>(2 * window_rows, "context"));
      level.push_back(m);
    }
  }
  return block;
}

/// A lane shares no memory with others.
template <class R>
result<lane_context<R>> make_lane(task_runner& runner, const prose_config& config) {
  lane_context<R> lane;
  for (std::uint32_t b = 0; b < config.blocks; ++b) {
    WEIR_TRY(auto block, make_block<R>(runner, config));
    lane.blocks.push_back(std::move(block));
  }
  // Logits of the row that waits.
  WEIR_TRY(lane.pending, runner.allocate<R>(config.vocab, "context"));
  WEIR_TRY(lane.clock, runner.allocate<std::uint64_t>(lane_clock::words, "context"));
  return lane;
}

/// Returns the Frobenius norm of a memory. The order of the sum is fixed, so that equal
/// memories have equal norms.
double norm_of(const buffer<float>& memory) {
  double squares = 0;
  for (std::int64_t i = 0; i < memory.count; ++i) {
    const auto x = static_cast<double>(memory.data[i]);
    squares += x * x;
  }
  return std::sqrt(squares);
}

}  // namespace

/// The indices tell which memory it is.
memory_norm largest_memory_of(const model_state<float>& state) {
  memory_norm largest;
  const auto take = [&](double norm, std::size_t lane, std::size_t block,
                        std::size_t level, std::size_t head) {
    // A NaN counts as larger than every number, so that the caller gets to see it.
    if (norm > largest.norm || (std::isnan(norm) && !std::isnan(largest.norm))) {
      largest = {norm, static_cast<std::uint32_t>(lane),
                 static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(level),
                 static_cast<std::uint32_t>(head)};
    }
  };
  // In the order of the indices, so the first of equal norms wins.
  for (std::size_t lane = 0; lane < state.lanes.size(); ++lane) {
    const auto& blocks = state.lanes[lane].blocks;
    for (std::size_t block = 0; block < blocks.size(); ++block) {
      const auto& levels = blocks[block].memories;
      for (std::size_t level = 0; level < levels.size(); ++level) {
        for (std::size_t head = 0; head < levels[level].size(); ++head) {
          take(norm_of(levels[level][head].memory), lane, block, level, head);
        }
      }
    }
  }
  return largest;
}

/// Everything is allocated here, and nothing later.
template <class R>
result<model_state<R>> make_state(task_runner& runner, const prose_config& config,
                                  const parameter_layout& layout) {
  model_state<R> s;
  // All parameters are one array.
  WEIR_TRY(s.parameters, runner.allocate<R>(layout.size(), "parameters"));
  // Both moments of a group are one buffer.
  for (const step_group& group : layout.groups()) {
    WEIR_TRY(auto moments, runner.allocate<R>(2 * group.size, "moments"));
    WEIR_TRY(auto errors, runner.allocate<R>(group.size, "error buffers"));
    s.moments.push_back(moments);
    s.errors.push_back(errors);
  }
  WEIR_TRY(s.counters, runner.allocate<std::uint64_t>(step_counters::words, "counters"));
  // The parameters are the only part that does not begin with zeros.
  for (const parameter_info& info : layout.all()) {
    initialise(info, config.seed, s.parameters.data + info.offset);
  }
  for (std::uint32_t i = 0; i < config.lanes; ++i) {
    WEIR_TRY(auto lane, make_lane<R>(runner, config));
    s.lanes.push_back(std::move(lane));
  }
  return s;
}

/// The position stays: it counts tokens, not content.
template <class R>
void clear_context(lane_context<R>& lane) {
  // Old values would leak into the next text.
  for (auto& block : lane.blocks) {
    zero(block.tail);
    for (auto& open : block.open) {
      zero(open);
    }
    for (auto& level : block.memories) {
      for (auto& m : level) {
        zero(m.memory);
        zero(m.accumulator);
        zero(m.open);
      }
    }
  }
  zero(lane.pending);
  // No row waits any more.
  lane.clock.data[1] = 0;
}

template result<model_state<float>> make_state(task_runner&, const prose_config&,
                                               const parameter_layout&);
template result<model_state<double>> make_state(task_runner&, const prose_config&,
                                                const parameter_layout&);
template void clear_context(lane_context<float>&);
template void clear_context(lane_context<double>&);

}  // namespace weir::models
