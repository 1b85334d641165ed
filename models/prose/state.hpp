// SPDX-License-Identifier: Apache-2.0
/// @file
/// What lasts from pulse to pulse: parameters, moments, error buffers, counters and one
/// context per lane.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "prose/buffers.hpp"
#include "prose/kernels/table.hpp"
#include "prose/layout.hpp"
#include "weir/models/prose.hpp"

namespace weir::models {

inline constexpr std::uint32_t max_levels = 8;

/// Numbers that steps leave behind; a section of the checkpoint, word by word.
struct step_counters {
  static constexpr std::int64_t words = 1 + 2 * std::int64_t{max_levels};
  std::uint64_t updates = 0;                            ///< Build pulses so far
  std::array<std::uint64_t, max_levels> steps{};        ///< of the level's parameters
  std::array<std::uint64_t, max_levels> accumulated{};  ///< pulses in the error buffer

  void load_from(const std::uint64_t* from) {
    updates = from[0];
    std::copy_n(from + 1, max_levels, steps.begin());
    std::copy_n(from + 1 + max_levels, max_levels, accumulated.begin());
  }
  void store_to(std::uint64_t* to) const {
    to[0] = updates;
    std::copy_n(steps.begin(), max_levels, to + 1);
    std::copy_n(accumulated.begin(), max_levels, to + 1 + max_levels);
  }
};

/// Where a lane stands; part of its section of the checkpoint, word by word.
struct lane_clock {
  static constexpr std::int64_t words = 2;
  std::uint64_t position = 0;  ///< tokens
  std::uint64_t pending = 0;   ///< 1: the logits of the last row wait for their token
};

/// ContextMemory of one level of one head.
template <class R>
struct memory_state {
  buffer<R> both;         ///< memory, then accumulator
  buffer<R> memory;       ///< [32 key][32 value]
  buffer<R> accumulator;  ///< likewise; levels of 64 tokens or more
  buffer<R> open;         ///< [2][64] theta and keep of the open window
};
/// ContextMemory of one block.
template <class R>
struct block_context {
  buffer<R> tail;  ///< [3][width]
  std::vector<buffer<R>>
      open;  ///< per head [2][64][32]: keys and values of the open window
  std::vector<std::vector<memory_state<R>>> memories;  ///< [level][head]
};
/// ContextMemory of one lane.
template <class R>
struct lane_context {
  std::vector<block_context<R>> blocks;
  buffer<R> pending;            ///< [vocab] logits
  buffer<std::uint64_t> clock;  ///< a `lane_clock`
};

/// All of it, allocated and initialised.
template <class R>
struct model_state {
  buffer<R> parameters;  ///< flat, by `parameter_layout`
  std::vector<buffer<R>>
      moments;  ///< per step group: all first moments, then all second ones
  std::vector<buffer<R>> errors;   ///< per step group: error buffers
  buffer<std::uint64_t> counters;  ///< a `step_counters`
  std::vector<lane_context<R>> lanes;
};

template <class R>
[[nodiscard]] result<model_state<R>> make_state(task_runner& runner,
                                                const prose_config& config,
                                                const parameter_layout& layout);

/// What `prose::largest_memory` returns.
[[nodiscard]] memory_norm largest_memory_of(const model_state<float>& state);

/// Empties a lane's context but for its position.
template <class R>
void clear_context(lane_context<R>& lane);

}  // namespace weir::models
