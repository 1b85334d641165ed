// SPDX-License-Identifier: Apache-2.0
/// @file
/// The leftmost-longest search for added tokens, and the conditions under which one of
/// them is rejected or takes white space along.
///
/// The rules of the reference: the leftmost token wins, of several at one place the
/// longest. A token takes white space along on the sides where `lstrip` and `rstrip` say
/// so. A `single_word` token that touches a word character is rejected, and the search
/// goes on behind it.
#include "tokens/added.hpp"

#include <algorithm>
#include <cstring>

#include "tokens/unicode.hpp"

namespace weir::formats::tokens {

namespace {

/// Returns where the white space begins that ends at `end`; not before `least`.
/// Goes back character by character.
std::size_t space_before(std::string_view text, std::size_t end, std::size_t least) {
  while (end > least) {
    const character c = last_character(text.substr(0, end));
    if (!is_space(c.code)) {
      break;
    }
    end -= c.bytes;
  }
  return std::max(end, least);
}

/// Returns where the white space ends that begins at `begin`.
std::size_t space_behind(std::string_view text, std::size_t begin) {
  while (begin < text.size()) {
    const character c = first_character(text.data() + begin);
    if (!is_space(c.code)) {
      break;
    }
    begin += c.bytes;
  }
  return begin;
}

}  // namespace

/// The flags say what the tokens of the set do, for `can_cut`.
void added_set::add(const added_token& token, std::string content) {
  longest_ = std::max(longest_, content.size());
  single_words_ |= token.single_word;
  strips_left_ |= token.lstrip;
  strips_right_ |= token.rstrip;
  begins_with_space_ |= is_space(first_character(content.data()).code);
  entries_.push_back({std::move(content), token});
}

/// Lists the tokens by their first byte, the longest first. If all tokens begin with the
/// same byte, such as "<", the search is a `memchr`.
void added_set::prepare() {
  for (std::uint32_t i = 0; i < entries_.size(); ++i) {
    // Contents are never empty.
    by_byte_[static_cast<unsigned char>(entries_[i].content[0])].push_back(i);
  }
  int used = 0;
  // The longest token comes first, so the first that matches is the longest.
  for (std::size_t b = 0; b < by_byte_.size(); ++b) {
    auto& list = by_byte_[b];
    std::stable_sort(list.begin(), list.end(), [this](std::uint32_t a, std::uint32_t c) {
      return entries_[a].content.size() > entries_[c].content.size();
    });
    used += list.empty() ? 0 : 1;
    // Only of use if it is the only one.
    only_byte_ = list.empty() ? only_byte_ : static_cast<int>(b);
  }
  only_byte_ = used == 1 ? only_byte_ : -1;
}

/// Returns the longest token at a place, or null.
const added_set::entry* added_set::match_at(std::string_view text, std::size_t at) const {
  for (const std::uint32_t i : by_byte_[static_cast<unsigned char>(text[at])]) {
    if (text.substr(at).starts_with(entries_[i].content)) {
      return &entries_[i];
    }
  }
  return nullptr;
}

/// Returns the next place at which a token can begin, or the size of the text.
std::size_t added_set::next_start(std::string_view text, std::size_t from) const {
  // The usual case: all added tokens begin with "<".
  if (only_byte_ >= 0) {
    const void* found = from < text.size() ? std::memchr(text.data() + from, only_byte_,
                                                         text.size() - from)
                                           : nullptr;
    return found == nullptr
               ? text.size()
               : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
  }
  while (from < text.size() && by_byte_[static_cast<unsigned char>(text[from])].empty()) {
    ++from;
  }
  return from;
}

/// Returns whether no word character stands before `begin` or at `end`.
bool added_set::is_single(std::string_view text, std::size_t begin, std::size_t end) {
  // The ends of the text count as no word characters.
  return (begin == 0 || !is_word(last_character(text.substr(0, begin)).code)) &&
         (end == text.size() || !is_word(first_character(text.data() + end).code));
}

/// `at` is where the next token is searched, `given` is the end of the last part. White
/// space that a token takes along can lie behind the start of the next token, so `given`
/// may exceed `at`. With `open`, the search ends at the first place whose answer needs
/// more text (`limit`): a token may begin there that the text does not hold whole, or a
/// token ends at the end of the text and its right side is unknown. White space before
/// `limit` may belong to an `lstrip` token that is still to come.
void added_set::split(std::string_view text, bool open, std::vector<text_part>& parts,
                      std::vector<text_part>& hidden) const {
  if (entries_.empty()) {
    if (!text.empty()) {
      parts.push_back({0, text.size(), no_id, open});
    }
    return;
  }
  std::size_t given = 0;            // text before it has been returned
  std::size_t limit = text.size();  // from here on, tokens can depend on more text
  for (std::size_t at = next_start(text, 0); at < text.size();) {
    // Only near the end can a token be cut off.
    if (open && text.size() - at < longest_) {
      // A longer token may begin here, if the text ends with its beginning.
      const auto& list = by_byte_[static_cast<unsigned char>(text[at])];
      const bool begins = std::any_of(list.begin(), list.end(), [&](std::uint32_t i) {
        return entries_[i].content.size() > text.size() - at &&
               entries_[i].content.starts_with(text.substr(at));
      });
      if (begins) {
        limit = at;
        break;
      }
    }
    const entry* found = match_at(text, at);
    if (found == nullptr) {
      at = next_start(text, at + 1);
      continue;
    }
    const std::size_t end = at + found->content.size();
    std::size_t stop = found->token.rstrip ? space_behind(text, end) : end;
    if (open && stop == text.size() &&
        (found->token.rstrip || found->token.single_word)) {
      limit = at;
      break;
    }
    if (found->token.single_word && !is_single(text, at, end)) {
      hidden.push_back({at, end, found->token.id, false});
      at = next_start(text, end);
      continue;
    }
    const std::size_t begin =
        // White space that was given already is not taken again.
        found->token.lstrip ? space_before(text, at, std::min(given, at)) : at;
    const std::size_t start = std::max(begin, given);
    if (given < start) {
      parts.push_back({given, start, no_id, false});
    }
    parts.push_back({start, stop, found->token.id, false});
    given = stop;
    at = next_start(text, end);
  }
  if (open && strips_left_ && limit > given) {
    limit = space_before(text, limit, given);
  }
  // With open text, an empty last part says where the answer ends.
  if (given < limit || (open && given < text.size())) {
    parts.push_back({given, std::max(given, limit), no_id, open});
  }
}

}  // namespace weir::formats::tokens
