// SPDX-License-Identifier: Apache-2.0
/// @file
/// Allocation and start values of the lasting state.
#include "prose/state.hpp"

#include <algorithm>

namespace weir::models {

namespace {

template <class R>
void zero(buffer<R>& b) {
  std::fill_n(b.p, b.count, R{});
}

template <class R>
result<block_context<R>> make_block(task_place& place, const prose_config& config) {
  block_context<R> block;
  WEIR_TRY(block.tail,
           place.allocate<R>((conv_taps - 1) * std::int64_t{config.width}, "context"));
  for (std::uint32_t h = 0; h < config.heads; ++h) {
    WEIR_TRY(auto open, place.allocate<R>(2 * window_rows * head_width, "context"));
    block.open.push_back(open);
  }
  block.memories.resize(config.frequencies.size());
  for (auto& level : block.memories) {
    for (std::uint32_t h = 0; h < config.heads; ++h) {
      memory_state<R> m;
      constexpr int size = head_width * head_width;
      WEIR_TRY(m.both, place.allocate<R>(2 * size, "context"));
      m.memory = m.both.sub(0, size);
      m.accumulator = m.both.sub(size, size);
      WEIR_TRY(m.open, place.allocate<R>(2 * window_rows, "context"));
      level.push_back(m);
    }
  }
  return block;
}

template <class R>
result<lane_context<R>> make_lane(task_place& place, const prose_config& config) {
  lane_context<R> lane;
  for (std::uint32_t b = 0; b < config.blocks; ++b) {
    WEIR_TRY(auto block, make_block<R>(place, config));
    lane.blocks.push_back(std::move(block));
  }
  WEIR_TRY(lane.pending, place.allocate<R>(config.vocab, "context"));
  WEIR_TRY(lane.clock, place.allocate<std::uint64_t>(lane_clock::words, "context"));
  return lane;
}

}  // namespace

template <class R>
result<model_state<R>> make_state(task_place& place, const prose_config& config,
                                  const parameter_layout& layout) {
  model_state<R> s;
  WEIR_TRY(s.parameters, place.allocate<R>(layout.size(), "parameters"));
  for (const step_group& group : layout.groups()) {
    WEIR_TRY(auto moments, place.allocate<R>(2 * group.size, "moments"));
    WEIR_TRY(auto errors, place.allocate<R>(group.size, "error buffers"));
    s.moments.push_back(moments);
    s.errors.push_back(errors);
  }
  WEIR_TRY(s.counters, place.allocate<std::uint64_t>(step_counters::words, "counters"));
  for (const parameter_info& info : layout.all()) {
    initialise(info, config.seed, s.parameters.p + info.offset);
  }
  for (std::uint32_t i = 0; i < config.lanes; ++i) {
    WEIR_TRY(auto lane, make_lane<R>(place, config));
    s.lanes.push_back(std::move(lane));
  }
  return s;
}

template <class R>
void clear_context(lane_context<R>& lane) {
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
  lane.clock.p[1] = 0;
}

template result<model_state<float>> make_state(task_place&, const prose_config&,
                                               const parameter_layout&);
template result<model_state<double>> make_state(task_place&, const prose_config&,
                                                const parameter_layout&);
template void clear_context(lane_context<float>&);
template void clear_context(lane_context<double>&);

}  // namespace weir::models
