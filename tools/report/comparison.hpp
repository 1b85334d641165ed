// SPDX-License-Identifier: Apache-2.0
/// @file
/// The corpus of a run looked at again: its files, and how well simple models predict the
/// same tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "count_models.hpp"
#include "weir/base/error.hpp"

namespace weir::tools {

struct corpus_file {
  std::string path;
  std::uint64_t bytes = 0;
  std::uint64_t digest = 0;  ///< XXH3-64
};

struct corpus_comparison {
  std::vector<corpus_file> files;
  std::uint64_t identity = 0;       ///< of the token source: names, sizes, content
  std::uint64_t tokens = 0;         ///< compared: the first ones of the source
  std::size_t window = 0;           ///< tokens per entry of the curves
  double gzip = 0;                  ///< bits per byte of the same text at level 9
  std::vector<count_curve> counts;  ///< order 0 to 3
};

/// Most tokens that are compared; a longer text is cut.
inline constexpr std::uint64_t comparison_limit = std::uint64_t{1} << 24;

/// Reads the first `tokens` tokens of the source that a run names and scores them.
/// @error{not_found, source_unavailable, the files; unsupported, standard input cannot be
/// read again}
[[nodiscard]] result<corpus_comparison> compare_corpus(
    const std::vector<std::string>& paths, bool separate_documents, std::uint64_t tokens);

/// In words: which of gzip and the count models a figure beats, honestly: a model that
/// learned from more tokens than they read (`learned`) beats nobody.
[[nodiscard]] std::string verdict(const corpus_comparison& c, double cumulative,
                                  double last_quarter, double learned);

}  // namespace weir::tools
