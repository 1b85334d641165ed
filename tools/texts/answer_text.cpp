// SPDX-License-Identifier: Apache-2.0
/// @file
/// Decodes the last tokens of an answer.
///
/// The text of a sequence of tokens may end with an unfinished character, which the
/// tokenizer writes as U+FFFD. The text in front of it is settled: further tokens do not
/// change it. `add` returns the settled text that was not returned before. Once the text
/// has no unfinished end, the tokens whose text was returned earlier are dropped, so each
/// call decodes only the newest tokens, however long the answer is.
#include "texts/answer_text.hpp"

#include <algorithm>
#include <string_view>

namespace weir::tools {

namespace {

/// The character that stands for bytes that are no UTF-8, such as those of a character
/// whose last token is not drawn yet.
constexpr std::string_view replacement = "\xEF\xBF\xBD";

/// Returns the length of the part of a text that further tokens do not change.
std::size_t settled_length(std::string_view text) {
  while (text.ends_with(replacement)) {
    text.remove_suffix(replacement.size());
  }
  return text.size();
}

}  // namespace

// Two calls may give the same `settled`, and one may give less than was returned before;
// `given_` never goes back, so no byte is returned twice.
std::string answer_text::take(const std::string& text, std::size_t settled) {
  const std::size_t from = std::min(given_, settled);
  given_ = std::max(given_, settled);
  return text.substr(from, settled - from);
}

// Decodes the kept tokens with the new one. While the end is no whole character, the
// piece ends in front of it, unless so many tokens wait that the end is taken for bytes
// that are no text.
result<std::string> answer_text::add(std::uint32_t id) {
  ids_.push_back(id);
  WEIR_TRY(const std::string text, tokens_.decode(ids_));
  const std::size_t settled = settled_length(text);
  if (settled < text.size() && ids_.size() - known_ <= max_open) {
    return take(text, settled);
  }
  std::string piece = take(text, text.size());
  // The text of all tokens is known. The newest ones stay as the beginning of the next
  // text; what stood before them is not decoded again.
  // The kept tokens are decoded alone once more, because `given_` counts bytes of the
  // text of the tokens that are left.
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(known_));
  known_ = ids_.size();
  WEIR_TRY(const std::string kept, tokens_.decode(ids_));
  given_ = kept.size();
  return piece;
}

// What waits for a whole character is returned as it is. The object can then take a new
// answer.
result<std::string> answer_text::end() {
  WEIR_TRY(const std::string text, tokens_.decode(ids_));
  std::string rest = take(text, text.size());
  ids_.clear();
  known_ = 0;
  given_ = 0;
  return rest;
}

}  // namespace weir::tools
