// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opening of a corpus: the source of tokens of a context stream.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weir/actors/run.hpp"
#include "weir/actors/source_settings.hpp"
#include "weir/base/file.hpp"
#include "weir/storage/context.hpp"

namespace weir::actors {

/// What is to be read, and how.
struct corpus_order {
  source_settings source;         ///< where the tokens come from
  named_sources sources;          ///< sources to which `source` may refer
  storage::stream_config config;  ///< settings of the context stream
  bool grown = false;             ///< text may have been added since the cursor was made
  /// Contexts of the lanes, if there may be another number of them than in the cursor.
  context_policy contexts = context_policy::keep;
  /// Names of the sources that follow, if the stream ends with `chain`.
  std::vector<std::string> chain{};
  bool resumes = false;  ///< a cursor will be restored
};
/// A context stream over a corpus, and facts about the corpus.
struct opened_corpus {
  std::unique_ptr<storage::context_stream> stream;  ///< at its first token
  std::vector<std::string> files;  ///< files in the order of reading, or "stdin"
  std::uint64_t tokens = 0;        ///< length of the corpus; 0 if it is unknown
  std::uint64_t identity = 0;      ///< digest of names, sizes and content
  std::vector<std::string> chain;  ///< names of the sources that follow the first one
};

/// Opens a corpus. Standard input cannot be combined with files.
/// @error{source_unavailable, the source cannot be read}
/// @error{invalid_argument, "-" stands beside files, or the settings exclude each other}
[[nodiscard]] result<opened_corpus> open_corpus(file_system& fs,
                                                const corpus_order& order);
/// Opens a corpus behind a cursor. Also returns the errors of `open_corpus` and of
/// `context_stream::restore`.
/// @error{history_mismatch, the source differs from the one of the cursor; the hint says
/// so if text was added only}
[[nodiscard]] result<opened_corpus> continue_corpus(file_system& fs,
                                                    const corpus_order& order,
                                                    const storage::stream_cursor& at);
/// Tells how much each source of a mixture has given, one line per source; nothing if
/// the stream reads no mixture.
[[nodiscard]] std::vector<std::string> shares_of(const storage::context_stream& stream);

}  // namespace weir::actors
