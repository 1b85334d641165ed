// SPDX-License-Identifier: Apache-2.0
/// @file
/// Finds directives in the text of a PTX module.
///
/// The text is a sequence of words. White space, commas, semicolons, comments and strings
/// separate words, so that nothing in a comment is taken for a directive.
#include "weir/tessera/device/ptx_text.hpp"

namespace weir::tessera {

namespace {

/// Returns the length of the text up to the end of `closing`, which is searched for from
/// `from` on; the whole length if it is missing.
std::size_t length_up_to(std::string_view text, std::string_view closing,
                         std::size_t from) noexcept {
  const std::size_t at = text.find(closing, from);
  return at == text.npos ? text.size() : at + closing.size();
}

/// Returns the length of what separates words at the start of a text; 0 at a word.
std::size_t ptx_gap_length(std::string_view text) noexcept {
  constexpr std::string_view single = " \t\r\n\v\f,;";
  if (text.starts_with("//")) {
    return length_up_to(text, "\n", 2);
  }
  if (text.starts_with("/*")) {
    return length_up_to(text, "*/", 2);
  }
  if (text.starts_with('"')) {
    return length_up_to(text, "\"", 1);
  }
  return !text.empty() && single.find(text.front()) != single.npos ? 1 : 0;
}

/// Takes the next word from the front of a text; empty at the end.
std::string_view next_ptx_word(std::string_view& text) noexcept {
  for (std::size_t skip = ptx_gap_length(text); skip != 0; skip = ptx_gap_length(text)) {
    text.remove_prefix(skip);
  }
  std::size_t length = 0;
  while (length < text.size() && ptx_gap_length(text.substr(length)) == 0) {
    ++length;
  }
  const std::string_view word = text.substr(0, length);
  text.remove_prefix(length);
  return word;
}

}  // namespace

// Directives of a module stand at its beginning, so few words are read of a sound text.
std::string_view ptx_directive(std::string_view ptx,
                               std::string_view directive) noexcept {
  for (std::string_view word = next_ptx_word(ptx); !word.empty();
       word = next_ptx_word(ptx)) {
    if (word == directive) {
      return next_ptx_word(ptx);
    }
  }
  return {};
}

}  // namespace weir::tessera
