// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the curve of a run is compared with: adaptive count models of the same text, and
/// gzip.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"

namespace weir::tools {

/// How well one count model predicted a text, each token before it was counted.
struct count_curve {
  unsigned order = 0;          ///< tokens of context
  double cumulative = 0;       ///< bits per token over the whole text
  double last_quarter = 0;     ///< bits per token over the last quarter
  std::vector<float> windows;  ///< bits per token of each window; the last may be shorter
};

/// Adaptive Witten-Bell models of order 0 to `highest`, each backing off to the next
/// lower one and the lowest to the uniform distribution over `vocabulary` tokens.
///
/// The protocol is that of the language model: predict a token, pay -log2 of its
/// probability, then count it.
/// @param window  Tokens per entry of `count_curve::windows`, > 0.
/// @error{out_of_range, a token is not below `vocabulary`, or `vocabulary` exceeds 512}
/// @threads{safe to call concurrently}
/// @source{Witten and Bell, IEEE Trans. Information Theory 37 (1991), method C}
[[nodiscard]] result<std::vector<count_curve>> count_models(
    std::span<const std::uint32_t> tokens, std::uint32_t vocabulary, std::size_t window,
    unsigned highest = 3);

/// Bits per byte of a text in the gzip format at level 9, which sees the whole text
/// before it writes; 0 for none.
/// @threads{safe to call concurrently}
[[nodiscard]] result<double> gzip_bits_per_byte(bytes_view text);

}  // namespace weir::tools
