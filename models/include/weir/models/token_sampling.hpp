// SPDX-License-Identifier: Apache-2.0
/// @file
/// Draws the next token of a sequence from logits.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "weir/base/error.hpp"

namespace weir::models {

/// How tokens are drawn. The defaults change nothing, and the most likely token is taken.
struct sampling_options {
  /// Numbers that are added to the logits of tokens.
  std::vector<std::pair<std::uint32_t, float>> bias;
  /// Divides positive logits of recent tokens and multiplies negative ones. @units{1:
  /// off}
  float repetition_penalty = 1;
  float presence_penalty = 0;   ///< subtracted from the logits of recent tokens
  float frequency_penalty = 0;  ///< subtracted for each time that a token is recent
  float temperature = 0;        ///< divides the logits; 0: the most likely token
  std::uint32_t top_k = 0;      ///< keeps the k most likely tokens; 0: all
  float top_p = 1;  ///< keeps the most likely tokens that have this probability together
  float min_p = 0;  ///< drops tokens less likely than this part of the most likely one
  std::uint64_t seed = 0;  ///< seed of the random numbers
};

/// Tokens before the drawn one that count as recent.
inline constexpr std::size_t recent_tokens = 64;

/// Checks options as `draw_token` expects them.
/// @param vocab  Number of token ids.
/// @error{invalid_argument, names the first option that is out of range}
/// @threads{pure}
[[nodiscard]] result<void> check_options(const sampling_options& options,
                                         std::uint32_t vocab);

/// Draws a token.
///
/// Steps, in this order: bias; penalties; temperature; top-k; top-p; min-p. Candidates
/// are ordered by logit, and among equals by id. Their probabilities are computed with
/// our own exponential, as multiples of 2^-39 of the largest one, so that their sum does
/// not depend on an order. One random number decides, which is a function of the seed and
/// the index. Equal arguments therefore give equal tokens.
/// @param logits  One for each token id; at least one. All are finite, as those of every
/// undamaged model.
/// @param history  The tokens of the sequence, of which the last `recent_tokens` count.
/// @param options  Options that `check_options` accepts.
/// @param index  Number of the drawn token in its sequence.
/// @returns The id of a token.
/// @error{out_of_range, a logit is not finite; or the largest one is not after bias\,
/// penalties and temperature}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::uint32_t> draw_token(std::span<const float> logits,
                                               std::span<const std::uint32_t> history,
                                               const sampling_options& options,
                                               std::uint64_t index);

}  // namespace weir::models
