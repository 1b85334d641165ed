// SPDX-License-Identifier: Apache-2.0
/// @file
/// Texts as ids of a tokenizer: a source that encodes files while they are read.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weir/base/file.hpp"
#include "weir/formats/tokens.hpp"
#include "weir/storage/context_source.hpp"

namespace weir::actors {

/// How texts are encoded.
struct tokenized_options {
  bool separate_documents = true;  ///< the end-of-text id stands between two files
  /// Id that stands between two files. Unset: `end_of_text_id`.
  std::optional<std::uint32_t> separator;
  /// Bytes that are not UTF-8 become U+FFFD, and pages that the system cannot read are
  /// left out with the separator in their place, instead of an error.
  bool skip_damage = false;
  /// Ranges of bytes that are left out although they can be read, from `go_on_at` on. The
  /// text before a range and the one behind it are encoded apart.
  std::vector<storage::file_range> skip;
};

/// Returns the id with which texts end by the custom of their tokenizers: that of
/// <|endoftext|>, <|end_of_text|>, </s> or [SEP], else the size of the vocabulary.
[[nodiscard]] std::uint32_t end_of_text_id(const formats::tokenizer& with);

/// Opens text files as a source of ids.
///
/// The source reads forward and keeps its newest 2^20 ids, so its lanes are at most so
/// far apart, and it cannot loop. Its state is the last cut before a token at which the
/// tokenizer splits every text, so that a resumed run encodes at most a window of 64 KiB
/// again. The state depends on the index and the text alone, not on how far was read.
/// @error{source_unavailable, a file is missing, unreadable or empty}
/// @error{invalid_argument, `paths` is empty}
/// @error{unsupported, the tokenizer cannot encode a stream}
[[nodiscard]] result<std::unique_ptr<storage::token_source>> open_tokenized(
    file_system& fs, std::vector<std::string> paths, formats::tokenizer with,
    const tokenized_options& options);

}  // namespace weir::actors
