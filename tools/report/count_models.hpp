// SPDX-License-Identifier: Apache-2.0
/// @file
/// The models that a run is compared with: adaptive count models and gzip.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"

namespace weir::tools {

/// The score of a count model on a text.
struct count_curve {
  unsigned order = 0;          ///< tokens of context
  double cumulative = 0;       ///< bits per token over the whole text
  double last_quarter = 0;     ///< bits per token over the last quarter
  std::vector<float> windows;  ///< bits per token of each window; the last may be shorter
};

/// Scores adaptive Witten-Bell models of order 0 to `highest` on a text.
///
/// Each model backs off to the next lower one, and the lowest to the uniform distribution
/// over `vocabulary` tokens. The protocol is the same as for the language model: predict
/// a token, pay -log2 of its probability, then count it.
/// @param vocabulary  Number of different tokens, 1 to 512.
/// @param window      Tokens per entry of `count_curve::windows`, > 0.
/// @param highest     Highest order, 0 to 5.
/// @returns One score per order, from 0 on.
/// @error{out_of_range, a token is not below `vocabulary`, or a parameter is out of
/// range}
/// @threads{safe to call concurrently}
/// @source{Witten and Bell, IEEE Trans. Information Theory 37 (1991), method C}
[[nodiscard]] result<std::vector<count_curve>> count_models(
    std::span<const std::uint32_t> tokens, std::uint32_t vocabulary, std::size_t window,
    unsigned highest = 3);

/// Returns the bits per byte of a text compressed with gzip at level 9; 0 for an empty
/// text.
/// @error{out_of_memory, there is no memory for the tables of zlib}
/// @threads{safe to call concurrently}
[[nodiscard]] result<double> gzip_bits_per_byte(bytes_view text);

}  // namespace weir::tools
