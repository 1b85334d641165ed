// SPDX-License-Identifier: Apache-2.0
/// @file
/// The text of an answer while its tokens are drawn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/formats/tokens.hpp"

namespace weir::tools {

/// Decodes an answer token by token, and returns each character as soon as it is whole.
///
/// A token is decoded together with a few tokens before it, because some tokenizers write
/// a token in another way at the beginning of a text. Those of the text that was returned
/// before them are not decoded again. All pieces together are the text of all tokens. The
/// exception is an answer with more than `max_open` tokens in a row that form no whole
/// character, as random bytes do: it is returned in parts.
/// @threads{thread-compatible}
class answer_text {
 public:
  /// Largest number of tokens that wait for a whole character.
  static constexpr std::size_t max_open = 32;

  /// @param tokens  Must outlive the object.
  explicit answer_text(const formats::tokenizer& tokens) : tokens_(tokens) {}

  /// Adds a token and returns the text that is known through it; often empty in the
  /// middle of a character.
  /// Errors are those of `formats::tokenizer::decode`.
  [[nodiscard]] result<std::string> add(std::uint32_t id);
  /// Returns the rest of the text when no token follows.
  /// Errors are those of `formats::tokenizer::decode`.
  [[nodiscard]] result<std::string> end();
  /// Returns the number of tokens that the next call decodes again.
  [[nodiscard]] std::size_t kept_tokens() const noexcept { return ids_.size(); }

 private:
  /// Returns the text behind what was returned, up to `settled` bytes of it.
  [[nodiscard]] std::string take(const std::string& text, std::size_t settled);

  const formats::tokenizer& tokens_;
  std::vector<std::uint32_t> ids_;  ///< the tokens that are decoded again
  std::size_t known_ = 0;           ///< tokens of `ids_` whose text was returned
  std::size_t given_ = 0;           ///< bytes of the text of `ids_` that were returned
};

}  // namespace weir::tools
