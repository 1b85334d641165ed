// SPDX-License-Identifier: Apache-2.0
/// @file
/// The state that lasts from pulse to pulse: parameters, moments, error buffers,
/// counters, and one context per lane.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "buffers.hpp"
#include "prose/kernels/table.hpp"
#include "prose/layout.hpp"
#include "weir/models/prose.hpp"

namespace weir::models {

/// Largest number of levels of a model.
inline constexpr std::uint32_t max_levels = 8;

/// Counters of the optimizer. They are stored as the words of one section of the
/// checkpoint.
struct step_counters {
  static constexpr std::int64_t words = 1 + 2 * std::int64_t{max_levels};
  std::uint64_t updates = 0;                      ///< number of Build pulses so far
  std::array<std::uint64_t, max_levels> steps{};  ///< by level: steps of its parameters
  /// By level: number of pulses whose gradients are in its error buffer.
  std::array<std::uint64_t, max_levels> accumulated{};

  /// Reads the counters from `words` words.
  void load_from(const std::uint64_t* from) {
    updates = from[0];
    std::copy_n(from + 1, max_levels, steps.begin());
    std::copy_n(from + 1 + max_levels, max_levels, accumulated.begin());
  }
  /// Writes the counters to `words` words.
  void store_to(std::uint64_t* to) const {
    to[0] = updates;
    std::copy_n(steps.begin(), max_levels, to + 1);
    std::copy_n(accumulated.begin(), max_levels, to + 1 + max_levels);
  }
};

/// Position of a lane. It is stored as two words of the lane's section of the checkpoint.
struct lane_clock {
  static constexpr std::int64_t words = 2;
  std::uint64_t position = 0;  ///< number of tokens that the lane has consumed
  std::uint64_t pending = 0;   ///< 1 if the prediction of the last row is pending, else 0
};

// A window is open until the lane has consumed its 64 tokens. Memories advance when the
// window is complete; until then the context keeps the rows that the memories will need.

/// Context of one level of one head.
template <class R>
struct memory_state {
  buffer<R> both;         ///< memory, then accumulator
  buffer<R> memory;       ///< [32 key][32 value]
  buffer<R> accumulator;  ///< as `memory`; only levels of 64 tokens or more use it
  buffer<R> open;         ///< [2][64]: theta and keep of the open window
};
/// Context of one block.
template <class R>
struct block_context {
  buffer<R> tail;  ///< [3][width]: the last rows before the convolution
  /// By head, [2][64][32]: keys and values of the open window.
  std::vector<buffer<R>> open;
  std::vector<std::vector<memory_state<R>>> memories;  ///< [level][head]
};
/// Context of one lane: the ContextMemory of the design.
template <class R>
struct lane_context {
  std::vector<block_context<R>> blocks;
  buffer<R> pending;            ///< [vocab]: logits of the pending prediction
  buffer<std::uint64_t> clock;  ///< the words of a `lane_clock`
};

/// The whole state of a model.
template <class R>
struct model_state {
  buffer<R> parameters;  ///< the flat array of the `parameter_layout`
  /// By step group: all first moments, then all second moments.
  std::vector<buffer<R>> moments;
  std::vector<buffer<R>> errors;       ///< error buffers, by step group
  buffer<std::uint64_t> counters;      ///< the words of a `step_counters`
  std::vector<lane_context<R>> lanes;  ///< by lane
};

/// Allocates the state. Parameters get their initial values, everything else is zero.
/// @error{out_of_memory}
template <class R>
[[nodiscard]] result<model_state<R>> make_state(task_runner& runner,
                                                const prose_config& config,
                                                const parameter_layout& layout);

/// Returns the memory with the largest norm, as `prose::largest_memory` describes it.
[[nodiscard]] memory_norm largest_memory_of(const model_state<float>& state);

/// Empties a lane's context. The position of the lane stays.
template <class R>
void clear_context(lane_context<R>& lane);

}  // namespace weir::models
