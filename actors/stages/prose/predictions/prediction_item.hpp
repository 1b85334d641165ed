// SPDX-License-Identifier: Apache-2.0
/// @file
/// The item with the predictions of a pulse, which `prose.learn` makes and
/// `prose.predictions` writes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stages/prose/pulse_item.hpp"

namespace weir::actors {

/// Returns the number of 32-bit words of an item with the predictions of a pulse.
[[nodiscard]] std::uint64_t prediction_words(const pulse_shape& shape) noexcept;
/// Returns the type of such an item, such as `u32[210]`.
[[nodiscard]] std::string prediction_type(const pulse_shape& shape);

/// The predictions for a chunk of one lane. Spans point into the item.
/// @shape{tokens, likeliest and score_bits: one for each token of the chunk}
struct chunk_predictions {
  std::uint32_t lane = 0;                    ///< lane of the context stream
  std::uint64_t position = 0;                ///< position of the first token in the lane
  std::span<const std::uint32_t> tokens;     ///< ids of the chunk
  std::span<const std::uint32_t> likeliest;  ///< `models::lane_predictions::likeliest`
  /// Patterns of f32 numbers: negative log2-likelihood of the token that follows, or NaN.
  std::span<const std::uint32_t> scores;
  /// Negative log2-likelihood of the first token, if an earlier chunk did not score it.
  std::optional<float> pending_score;
};
/// The predictions of a pulse.
struct pulse_predictions {
  std::uint64_t pulse = 0;                ///< `models::pulse::id`
  std::uint64_t phase_pulse = 0;          ///< `pulse_facts::phase_pulse`
  std::uint64_t updates = 0;              ///< `models::pulse::update`
  std::vector<chunk_predictions> chunks;  ///< of the lanes that have one, in their order
};

/// Writes the predictions of a pulse to an item. All words of the item are written.
/// @param to      `prediction_words(shape)` words.
/// @param pulse   The pulse.
/// @param result  By lane, as the model returns them for the pulse.
void write_predictions(std::span<std::uint32_t> to, const pulse_shape& shape,
                       const read_pulse& pulse,
                       const std::vector<models::lane_predictions>& result);
/// Reads the predictions of a pulse from an item.
/// @error{corrupt, the item is not one of `write_predictions`}
[[nodiscard]] result<pulse_predictions> read_predictions(
    std::span<const std::uint32_t> from);

}  // namespace weir::actors
