// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opening of a source of tokens that settings describe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weir/actors/source_settings.hpp"
#include "weir/base/file.hpp"
#include "weir/storage/context_source.hpp"

namespace weir::actors {

/// An open source of tokens.
struct opened_source {
  std::unique_ptr<storage::token_source> tokens;  ///< at its first token
  std::vector<std::string> files;  ///< files in the order of reading, or "stdin"
};

/// Opens the source that settings describe. This is the only place that knows which
/// setting makes which source.
/// Ranges that the user wants to be left out count from `token_source::go_on_at` on.
/// @param named  Sources to which `source` may refer.
/// @error{source_unavailable, the source cannot be read}
/// @error{not_found, a path does not exist or a pattern matches no file}
/// @error{invalid_argument, "-" stands beside files, or settings exclude each other}
[[nodiscard]] result<opened_source> open_source(file_system& fs,
                                                const source_settings& source,
                                                const named_sources& named);

/// Returns the number of distinct ids of a source, for the vocabulary of a model. It
/// reads headers and no content.
/// @param wraps  True if the source is repeated or followed by another one, so that its
/// end-of-text token occurs. @error{as of `open_source`}
[[nodiscard]] result<std::uint32_t> vocabulary_of(file_system& fs,
                                                  const source_settings& source,
                                                  const named_sources& named, bool wraps);

}  // namespace weir::actors
