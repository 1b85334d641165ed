// SPDX-License-Identifier: Apache-2.0
/// @file
/// The two orders of the rows of a matrix whose outputs RoPE turns.
///
/// RoPE turns pairs of features of a head. Files of Hugging Face hold the first features
/// of all pairs of a head and then the second ones ("halves"). GGUF files of Llama hold
/// the two features of a pair next to each other ("pairs").
#pragma once

#include <cstdint>

namespace weir::models {

/// Returns the row of a file in pairs that holds row `row` of the model, whose rows are
/// in halves: row i < D/2 of a head is row 2i of the file, row D/2 + i is row 2i + 1.
/// @param width  D, the features of a head; even and at least 2.
/// @threads{pure}
/// @source{llama.cpp, conversion of Llama models, permute}
[[nodiscard]] constexpr std::uint64_t row_of_pairs(std::uint64_t row,
                                                   std::uint64_t width) noexcept {
  const std::uint64_t inside = row % width;
  const std::uint64_t half = width / 2;
  return row - inside + (inside < half ? 2 * inside : 2 * (inside - half) + 1);
}

/// Returns the inverse of `row_of_pairs`: the row of the model that a file in pairs holds
/// in row `row`.
/// @param width  D, the features of a head; even and at least 2.
/// @threads{pure}
[[nodiscard]] constexpr std::uint64_t row_of_halves(std::uint64_t row,
                                                    std::uint64_t width) noexcept {
  const std::uint64_t inside = row % width;
  return row - inside + inside / 2 + (inside % 2 == 0 ? 0 : width / 2);
}

}  // namespace weir::models
