// SPDX-License-Identifier: Apache-2.0
/// @file
/// The layout of an item with predictions: a head, then for each lane a head, its tokens,
/// the likeliest ids and the scores.
///
/// The item is an array of u32, so that its type is one of a port. Numbers of 64 bits
/// take two words. Each lane has as much space as a full chunk, so every item has the
/// same size. Unused words are 0.
#include "stages/prose/predictions/prediction_item.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numbers>

#include <fmt/format.h>

namespace weir::actors {
namespace {

/// The head of an item, as it lies in memory.
/// It has no padding; `head_size` is its size in words.
struct predictions_head {
  std::uint64_t layout = 0;  ///< `predictions_layout`
  std::uint64_t pulse = 0;
  std::uint64_t phase_pulse = 0;
  std::uint64_t updates = 0;
  std::uint64_t lanes = 0;
  std::uint64_t chunk = 0;  ///< tokens of a full chunk
};
/// The head of a lane, as it lies in memory.
/// The position is that of the first token; `pending` is its score.
/// A lane without tokens has the count 0.
struct predictions_lane {
  std::uint64_t position = 0;
  std::uint64_t count = 0;
  std::uint32_t has_pending = 0;  ///< 1 if `pending` counts
  float pending = 0;
};

/// First word of every item; it changes with the layout.
constexpr std::uint64_t predictions_layout = 0x31'7364'6572'70;  // "preds1"
constexpr std::uint64_t head_size = sizeof(predictions_head) / 4;
constexpr std::uint64_t lane_size = sizeof(predictions_lane) / 4;
/// Arrays of a lane: tokens, likeliest ids and scores.
constexpr std::uint64_t columns = 3;

/// Returns whether an item of so many words has exactly the lanes and chunks of its head.
/// The head may be damaged, so nothing is multiplied that could exceed 64 bits.
/// @pre words >= head_size
bool fits_into(const predictions_head& head, std::uint64_t words) noexcept {
  const std::uint64_t rest = words - head_size;
  if (head.lanes == 0 || head.lanes > std::numeric_limits<std::uint32_t>::max()) {
    return head.lanes == 0 && rest == 0;
  }
  const std::uint64_t of_lane = rest / head.lanes;
  return rest % head.lanes == 0 && of_lane >= lane_size &&
         (of_lane - lane_size) % columns == 0 &&
         (of_lane - lane_size) / columns == head.chunk;
}

/// Converts a negative log-likelihood from nats to bits.
float score_of(float nats) {
  return static_cast<float>(static_cast<double>(nats) / std::numbers::ln2);
}

/// The hint is for users who connect another stage.
error bad_predictions(const std::string& expected, std::uint64_t found) {
  return error(errc::corrupt, fmt::format("cannot read predictions of a pulse: expected "
                                          "{}, found {}",
                                          expected, found))
      .hint("connect the inlet to the outlet \"predictions\" of a prose.learn");
}

}  // namespace

/// Words of an item for lanes and chunks of a shape.
std::uint64_t prediction_words(const pulse_shape& shape) noexcept {
  return head_size + shape.lanes * (lane_size + columns * shape.chunk);
}

/// Type of the outlet and inlet.
std::string prediction_type(const pulse_shape& shape) {
  return fmt::format("u32[{}]", prediction_words(shape));
}

/// @pre `to` has `prediction_words(shape)` words.
void write_predictions(std::span<std::uint32_t> to, const pulse_shape& shape,
                       const read_pulse& pulse,
                       const std::vector<models::lane_predictions>& result) {
  std::fill(to.begin(), to.end(), 0);
  const models::pulse& p = pulse.facts.pulse;
  const predictions_head head{predictions_layout, p.id,        pulse.facts.phase_pulse,
                              p.update,           shape.lanes, shape.chunk};
  std::memcpy(to.data(), &head, sizeof(head));
  std::uint32_t* at = to.data() + head_size;
  for (std::uint32_t lane = 0; lane < shape.lanes; ++lane) {
    const models::prose::lane_input& input = pulse.inputs[lane];
    const models::lane_predictions& of_lane = result[lane];
    const float pending = of_lane.pending_nats ? score_of(*of_lane.pending_nats) : 0;
    const predictions_lane part{input.position, input.tokens.size(),
                                of_lane.pending_nats ? 1U : 0U, pending};
    std::memcpy(at, &part, sizeof(part));
    at += lane_size;
    // Tokens, ids and scores have a full chunk of space each.
    std::copy(input.tokens.begin(), input.tokens.end(), at);
    std::copy(of_lane.likeliest.begin(), of_lane.likeliest.end(), at + shape.chunk);
    std::transform(
        of_lane.nats.begin(), of_lane.nats.end(), at + 2 * shape.chunk,
        [](float nats) { return std::bit_cast<std::uint32_t>(score_of(nats)); });
    at += columns * shape.chunk;
  }
}

/// Reads an item. The spans of the result point into `from`.
result<pulse_predictions> read_predictions(std::span<const std::uint32_t> from) {
  predictions_head head;
  if (from.size() < head_size) {
    return bad_predictions(fmt::format("at least {} words", head_size), from.size());
  }
  std::memcpy(static_cast<void*>(&head), from.data(), sizeof(head));
  if (head.layout != predictions_layout) {
    return bad_predictions("the head of predictions", head.layout);
  }
  // The size must be that of the shape in the head.
  if (!fits_into(head, from.size())) {
    return bad_predictions(
        fmt::format("the words of {} lanes with {} tokens each", head.lanes, head.chunk),
        from.size());
  }
  const pulse_shape shape{static_cast<std::uint32_t>(head.lanes), head.chunk};
  pulse_predictions out{head.pulse, head.phase_pulse, head.updates, {}};
  std::uint64_t at = head_size;
  for (std::uint32_t lane = 0; lane < shape.lanes; ++lane) {
    predictions_lane part;
    std::memcpy(static_cast<void*>(&part), from.data() + at, sizeof(part));
    at += lane_size;
    if (part.count > shape.chunk) {
      return bad_predictions(fmt::format("at most {} tokens of a lane", shape.chunk),
                             part.count);
    }
    // Lanes without tokens give no chunk.
    if (part.count != 0) {
      chunk_predictions& chunk = out.chunks.emplace_back();
      chunk.lane = lane;
      chunk.position = part.position;
      chunk.tokens = from.subspan(at, part.count);
      chunk.likeliest = from.subspan(at + shape.chunk, part.count);
      chunk.scores = from.subspan(at + 2 * shape.chunk, part.count);
      if (part.has_pending != 0) {
        chunk.pending_score = part.pending;
      }
    }
    at += columns * shape.chunk;
  }
  return out;
}

}  // namespace weir::actors
