// SPDX-License-Identifier: Apache-2.0
/// @file
/// The two written forms of a tokenizer, the keys of a GGUF file and `tokenizer.json`,
/// and the conversion of each to the other.
///
/// A conversion gives the same ids for every text, or it is refused.
#pragma once

#include <string>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"
#include "weir/formats/tokens.hpp"

namespace weir::formats {

/// Reads the keys of a tokenizer from the first bytes of a GGUF file.
/// @param head  All entries of the metadata.
/// @param name  Name of the file for error messages.
/// @error{corrupt, the header is cut or contradicts itself, or a key is missing}
/// @error{unsupported_version, the version of GGUF is neither 2 nor 3}
/// @error{out_of_range, the vocabulary is too large}
/// @threads{safe to call concurrently}
[[nodiscard]] result<gguf_tokenizer> tokenizer_keys_of_gguf(bytes_view head,
                                                            const std::string& name);

/// Returns the GGUF keys of a `tokenizer.json`.
///
/// Ids without a token get a token that no text has, as GGUF lists tokens without gaps.
/// @param name  Name of the file for error messages.
/// @error{unsupported, GGUF has no name for the normalizer, the pre-tokenizer or the
/// post-processor, or no key for a flag, a limit or a token on which ids depend}
/// @error{corrupt, out_of_range, as of `tokenizer::from_json`}
/// @threads{safe to call concurrently}
[[nodiscard]] result<gguf_tokenizer> tokenizer_keys_of_json(bytes_view json,
                                                            const std::string& name);

/// Returns the `tokenizer.json` of GGUF keys.
/// @error{unsupported, the model or the pre-tokenizer is not known}
/// @error{corrupt, out_of_range, as of `tokenizer::from_gguf`}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::string> tokenizer_json_of(const gguf_tokenizer& keys);

}  // namespace weir::formats
