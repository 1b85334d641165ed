// SPDX-License-Identifier: Apache-2.0
/// @file
/// The items between the stages of the text model: a pulse with the tokens of all lanes,
/// and the score of a pulse.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/models/prose.hpp"
#include "weir/models/pulse.hpp"
#include "weir/storage/context.hpp"

namespace weir::actors {

/// Lanes and length of chunks, from which the size of a pulse's item follows.
struct pulse_shape {
  std::uint32_t lanes = 1;   ///< lanes of the context stream
  std::uint64_t chunk = 64;  ///< tokens of a full chunk

  /// Returns the number of 32-bit words of an item.
  [[nodiscard]] std::uint64_t words() const noexcept;
  /// Returns the number of tokens of a pulse whose chunks are full.
  [[nodiscard]] std::uint64_t tokens() const noexcept { return chunk * lanes; }
  /// Returns the type of the item, such as `u32[90]`.
  [[nodiscard]] std::string type() const;
};

/// Facts of a pulse that all its lanes share.
struct pulse_facts {
  /// `active_levels` and `keeps_predictions` are not part of the item.
  models::pulse pulse;
  std::uint64_t tokens = 0;        ///< of all lanes
  std::uint64_t ends_of_text = 0;  ///< end-of-text tokens among the targets
  std::uint64_t build_budget = 0;  ///< tokens of the Build phase
  std::uint64_t phase_pulse = 0;   ///< pulses of the phase before this one
};

/// A pulse that was read from an item. Spans point into the item.
struct read_pulse {
  pulse_facts facts;                              ///< facts of the pulse
  std::vector<models::prose::lane_input> inputs;  ///< by lane; without tokens if absent
  std::vector<std::uint32_t> resets;  ///< lanes whose context is emptied before
};

/// Writes a pulse to an item. All words of the item are written.
/// @param to      `shape.words()` words.
/// @param lanes   Chunks by lane; a lane without one takes no part in the pulse.
/// @param resets  Lanes whose context is emptied before the pulse.
void write_pulse(std::span<std::uint32_t> to, const pulse_shape& shape,
                 const pulse_facts& facts,
                 const std::vector<std::optional<storage::token_chunk>>& lanes,
                 const std::vector<std::uint32_t>& resets);
/// Reads a pulse from an item.
/// @error{corrupt, the item is not one of `write_pulse` for this shape}
[[nodiscard]] result<read_pulse> read_item(std::span<const std::uint32_t> from,
                                           const pulse_shape& shape);

/// The words of a score's item.
enum class score_word : std::uint8_t {
  phase,          ///< a `models::pulse_phase`
  tokens,         ///< tokens of the pulse
  scored,         ///< tokens that were scored
  nats_q32,       ///< `models::pulse_result::nats_q32`
  ends_of_text,   ///< end-of-text tokens among the scored ones
  gradient_norm,  ///< bits of the f64, see `models::pulse_result`
  build_budget,   ///< tokens of the Build phase
  pulse_tokens    ///< tokens of a pulse whose chunks are full
};
/// Number of words of a score's item.
inline constexpr std::size_t score_words = 8;

}  // namespace weir::actors
