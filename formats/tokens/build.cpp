// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks of vocabularies, merges and added tokens.
///
/// JSON and GGUF both end here, so a tokenizer has the same invariants whatever it was
/// read from: ids are below `max_vocabulary`, tokens are UTF-8 of at most
/// `max_token_bytes`, no id and no token occurs twice, and every merge gives a token.
#include "tokens/build.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "weir/base/text.hpp"
#include "weir/base/utf8.hpp"

namespace weir::formats::tokens {

namespace {

/// Ids below this number are accepted in a vocabulary of any size.
constexpr std::uint64_t max_sparse_ids = 1U << 20;
/// Larger vocabularies may have this many ids for each token.
constexpr std::uint64_t max_ids_per_token = 16;

/// Checks the id, the size and the characters of one token.
result<void> check_token(std::string_view content, std::uint64_t id) {
  if (id >= max_vocabulary) {
    return error(errc::out_of_range,
                 // The message shows the beginning of the token only, which may be long.
                 fmt::format("cannot add the token {}: expected an id below {}, found {}",
                             json_quote(content.substr(0, 40)), max_vocabulary, id));
  }
  if (content.size() > max_token_bytes) {
    return error(errc::out_of_range,
                 fmt::format("cannot add the token of id {}: expected at most {} bytes, "
                             "found {}",
                             id, max_token_bytes, content.size()));
  }
  // Text is always UTF-8, so a token of other bytes could never be found.
  if (!is_utf8(content)) {
    return error(errc::corrupt, fmt::format("cannot add the token of id {}: expected "
                                            "UTF-8, found other bytes",
                                            id));
  }
  return {};
}

/// Compares everything that a file says about an added token except its id.
bool equal(const added_token& a, const added_token& b) {
  return a.content == b.content && a.single_word == b.single_word &&
         a.lstrip == b.lstrip && a.rstrip == b.rstrip && a.normalized == b.normalized &&
         a.special == b.special;
}

}  // namespace

/// All entries are checked before memory is taken, because the largest id determines the
/// size of the table: 2^24 entries at most, and 2^20 or 16 for each token, so that a
/// small file takes little memory. `by_spelling` refers to the strings of `tokens`, so it
/// is filled when these do not move any more.
result<void> set_vocabulary(model& to,
                            std::vector<std::pair<std::string, std::uint64_t>> entries) {
  // First pass: checks only.
  std::uint64_t largest = 0;
  for (const auto& [content, id] : entries) {
    WEIR_CHECK(check_token(content, id));
    largest = std::max(largest, id);
  }
  // Gaps are allowed, but not a table that is almost empty.
  const std::uint64_t limit =
      std::max(max_sparse_ids, max_ids_per_token * std::uint64_t{entries.size()});
  if (largest >= limit) {
    return error(errc::out_of_range,
                 fmt::format("cannot read a vocabulary: expected an id below {} for {} "
                             "tokens, found {}",
                             limit, entries.size(), largest))
        .hint("number the tokens with fewer gaps");
  }
  // Ids need not be without gaps, and a vocabulary may be empty.
  const std::size_t size = entries.empty() ? 0 : static_cast<std::size_t>(largest) + 1;
  to.tokens.assign(size, {});
  to.present.assign(size, false);
  to.by_spelling = text_index(entries.size());
  to.token_count = entries.size();
  // Second pass: the strings are moved into the table.
  for (auto& [content, id] : entries) {
    // The id was checked above, so it lies within the table.
    if (to.present[id]) {
      return error(
          errc::corrupt,
          fmt::format("cannot read a vocabulary: expected one token for each id, "
                      "found {} and {} for id {}",
                      json_quote(to.tokens[id]), json_quote(content), id));
    }
    to.present[id] = true;
    to.tokens[id] = std::move(content);
  }
  // Third pass: the strings do not move any more.
  for (std::uint32_t id = 0; id < size; ++id) {
    if (to.present[id] && !to.by_spelling.add(to.tokens[id], id)) {
      return error(errc::corrupt,
                   fmt::format("cannot read a vocabulary: expected every token once, "
                               "found {} twice",
                               json_quote(to.tokens[id])));
    }
  }
  return {};
}

/// The rank of a merge is its place in the list. A pair that occurs again gets the later
/// rank, as in the reference.
result<void> set_merges(model& to,
                        const std::vector<std::pair<std::string, std::string>>& pairs) {
  // Merges are found by the ids of both tokens.
  to.merges = merge_index(pairs.size());
  for (std::size_t rank = 0; rank < pairs.size(); ++rank) {
    const auto& [left, right] = pairs[rank];
    std::array<std::uint32_t, 3> ids{};
    // The pair itself, and the token that it becomes.
    const std::array<std::string, 3> names = {left, right, left + right};
    for (std::size_t i = 0; i < names.size(); ++i) {
      ids[i] = to.by_spelling.find(names[i]);
      if (ids[i] == no_id) {
        return error(
            errc::corrupt,
            fmt::format("cannot read merge {}: expected tokens of the vocabulary, "
                        "found {}",
                        rank, json_quote(names[i])));
      }
    }
    to.merges.set(ids[0], ids[1], {static_cast<std::uint32_t>(rank), ids[2]});
  }
  return {};
}

/// For WordPiece, `inner` has the tokens with the prefix of continuation, without the
/// prefix. For BPE, `byte_ids` and `fallback_ids` save a look-up by text for every byte.
/// Only `ignore_merges` looks up whole pieces, which are bytes, so only then the bytes of
/// all tokens are stored beside their spellings.
void prepare_model(model& to) {
  if (to.type == model::kind::wordpiece) {
    to.inner = text_index(to.token_count);
    for (std::uint32_t id = 0; id < to.tokens.size(); ++id) {
      // The prefix alone, without text behind it, is entered as an empty text and never
      // found.
      if (to.present[id] && to.tokens[id].starts_with(to.prefix)) {
        to.inner.add(std::string_view(to.tokens[id]).substr(to.prefix.size()), id);
      }
    }
    return;
  }
  // Not every vocabulary has tokens for all bytes.
  to.byte_ids.fill(no_id);
  to.fallback_ids.fill(no_id);
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::string spelling;
    // In a byte-level vocabulary each byte is spelled as a character.
    append_character(spelling, character_of_byte(byte));
    to.byte_ids[byte] = to.by_spelling.find(spelling);
    // In other vocabularies the tokens of bytes are written in hexadecimal.
    to.fallback_ids[byte] = to.by_spelling.find(fmt::format("<0x{:02X}>", byte));
  }
  if (to.byte_level && to.ignore_merges) {
    to.byte_texts.resize(to.tokens.size());
    to.by_bytes = text_index(to.token_count);
    for (std::uint32_t id = 0; id < to.tokens.size(); ++id) {
      // A token with characters that stand for no byte is no text, and cannot be found in
      // one.
      auto bytes = to.present[id] ? bytes_of_spelling(to.tokens[id]) : std::nullopt;
      if (bytes) {
        to.byte_texts[id] = std::move(*bytes);
        to.by_bytes.add(to.byte_texts[id], id);
      }
    }
  }
}

/// The reference numbers an added token by its content: the id in the vocabulary if it is
/// there, otherwise the next id behind the vocabulary. A file may claim another id, and
/// the reference would ignore the claim; refusing it is safer than ids that surprise. A
/// normalized token is looked for in normalized text, so its content is normalized here
/// too.
///
/// The same token twice is no problem. `next` is the next free id, if the vocabulary has
/// no gaps. The structures for searching are built at the end, since they need all
/// tokens.
result<void> set_added(tokenizer_parts& to, std::vector<added_token> added) {
  std::uint64_t next = to.model.token_count;
  std::string spare;
  // Place in `to.added` of each token by its content.
  std::unordered_map<std::string, std::size_t> places;
  for (added_token& token : added) {
    if (token.content.empty()) {
      continue;  // as in the reference
    }
    WEIR_CHECK(check_token(token.content, token.id));
    if (const auto same = places.find(token.content); same != places.end()) {
      if (equal(to.added[same->second], token)) {
        continue;
      }
      return error(
          errc::corrupt,
          fmt::format("cannot add the token {}: expected it once, found it twice "
                      "with different properties",
                      json_quote(token.content)));
    }
    const std::uint32_t known = to.model.by_spelling.find(token.content);
    const std::uint64_t id = known != no_id ? known : next++;
    if (id != token.id) {
      return error(errc::unsupported,
                   fmt::format("cannot add the token {}: expected id {}, which Hugging "
                               "Face tokenizers gives it, found {}",
                               json_quote(token.content), id, token.id))
          .hint("load the file with Hugging Face tokenizers and save it again");
    }
    // The text that is looked for may differ from the content of the token.
    std::string content = token.content;
    if (token.normalized) {
      to.normalizer.apply(content, spare);
    }
    if (content.empty()) {
      return error(
          errc::corrupt,
          fmt::format("cannot add the token {}: expected text in its normal form, "
                      "found none",
                      json_quote(token.content)));
    }
    // Tokens of both kinds are looked for separately: before and after normalization.
    (token.normalized ? to.normalized : to.raw).add(token, std::move(content));
    places.emplace(token.content, to.added.size());
    to.added.push_back(std::move(token));
  }
  to.raw.prepare();
  to.normalized.prepare();
  to.size = static_cast<std::uint32_t>(to.model.tokens.size());
  for (const added_token& token : to.added) {
    to.size = std::max(to.size, token.id + 1);
  }
  to.added_by_id.resize(to.size);
  to.special.resize(to.size);
  for (const added_token& token : to.added) {
    to.added_by_id[token.id] = token.content;
    to.special[token.id] = token.special;
  }
  return {};
}

/// Makes a level of a pre-tokenizer that splits where a pattern matches.
result<split_level> search_level(const std::string& text, split_behavior behavior) {
  split_level out;
  out.type = split_level::kind::search;
  // The pattern comes from a file and may be refused.
  WEIR_TRY(out.regex, pattern::compile(text));
  out.behavior = behavior;
  return out;
}

/// Makes a level that splits at characters with a property, such as punctuation.
split_level property_level(bool (*property)(char32_t) noexcept, split_behavior behavior) {
  split_level out;
  out.type = split_level::kind::predicate;
  out.property = property;
  out.behavior = behavior;
  return out;
}

}  // namespace weir::formats::tokens
