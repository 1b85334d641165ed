// SPDX-License-Identifier: Apache-2.0
/// @file
/// Compares a run with simple models of the same text: reads the corpus again, describes
/// its files, and scores count models and gzip on the same tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "count_models.hpp"
#include "weir/base/error.hpp"

namespace weir::tools {

/// One file of a corpus.
struct corpus_file {
  std::string path;          ///< as the run found it
  std::uint64_t bytes = 0;   ///< size of the file
  std::uint64_t digest = 0;  ///< XXH3-64
};

/// The corpus of a run, and the scores of other models on it.
struct corpus_comparison {
  std::vector<corpus_file> files;
  std::uint64_t identity = 0;       ///< digest over names, sizes and content of the files
  std::uint64_t tokens = 0;         ///< number of tokens compared, from the first one on
  std::size_t window = 0;           ///< tokens per entry of the curves
  double gzip = 0;                  ///< bits per byte of the same text at level 9
  std::vector<count_curve> counts;  ///< count models of order 0 to 3
};

/// Largest number of tokens that are compared; of a longer text, the first ones.
inline constexpr std::uint64_t comparison_limit = std::uint64_t{1} << 24;

/// Reads the first tokens of a corpus and scores the other models on them.
/// @param paths               Files and folders, as `run_config::paths` names them.
/// @param separate_documents  As `run_config::eot`: end each file with a token of its
/// own.
/// @param tokens              The number of tokens from which the model has learned.
/// @error{not_found, source_unavailable, io, a file cannot be read}
/// @error{unsupported, the corpus is standard input, which cannot be read again}
[[nodiscard]] result<corpus_comparison> compare_corpus(
    const std::vector<std::string>& paths, bool separate_documents, std::uint64_t tokens);

/// Returns a sentence that says which of gzip and the count models the model of a run
/// beats. If the model has learned from more tokens than the others read, the sentence
/// says that the figures cannot be compared.
/// @param cumulative    Bits per byte of the model over the whole text.
/// @param last_quarter  Bits per byte of the model over the last quarter.
/// @param learned       Number of tokens from which it has learned.
[[nodiscard]] std::string verdict(const corpus_comparison& c, double cumulative,
                                  double last_quarter, double learned);

}  // namespace weir::tools
