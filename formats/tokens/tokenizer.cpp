// SPDX-License-Identifier: Apache-2.0
/// @file
/// The public face of a tokenizer, and decoders.
///
/// Encoding checks the text, then runs it through the parts (`pipeline.cpp`) with working
/// memory of a pool, so that several threads can encode at the same time. Decoding joins
/// the spellings of the tokens by the rules of the decoder.
#include "weir/formats/tokens.hpp"

#include <fmt/format.h>

#include "tokens/pipeline.hpp"
#include "weir/base/utf8.hpp"

namespace weir::formats {

namespace tokens {

namespace {

/// Replaces every occurrence from left to right. A replacement is not searched again.
void replace_all(std::string& text, std::string_view from, std::string_view to) {
  // The next search begins behind the replacement.
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

/// Removes the spaces that WordPiece's decoder has put before punctuation of English.
/// The list and its order are those of the reference. It is applied to each token alone,
/// so a text that two tokens form together is not cleaned.
void clean_up(std::string& text) {
  replace_all(text, " .", ".");
  replace_all(text, " ?", "?");
  replace_all(text, " !", "!");
  replace_all(text, " ,", ",");
  replace_all(text, " ' ", "'");
  replace_all(text, " n't", "n't");
  replace_all(text, " 'm", "'m");
  replace_all(text, " do not", " don't");
  replace_all(text, " 's", "'s");
  replace_all(text, " 've", "'ve");
  replace_all(text, " 're", "'re");
}

/// Appends the text of one token. A byte-level token that contains a character which
/// stands for no byte, such as an added token, is appended as it is spelled.
void append_decoded(const token_decoder& with, std::string_view token, bool first,
                    std::string& out) {
  switch (with.type) {
    case token_decoder::kind::byte_level: {
      const auto bytes = bytes_of_spelling(token);
      // The spelling is not text but bytes, one for each character.
      out += bytes ? std::string_view(*bytes) : token;
      return;
    }
    case token_decoder::kind::joined:
      // Tokens are words, with a space between them.
      out += first ? "" : " ";
      out += token;
      return;
    case token_decoder::kind::wordpiece: {
      std::string text;
      if (first) {
        text = token;
      } else if (token.starts_with(with.prefix)) {
        // A token with the prefix continues the word before it.
        text = token.substr(with.prefix.size());
      } else {
        text = " ";
        text += token;
      }
      if (with.cleanup) {
        clean_up(text);
      }
      out += text;
      return;
    }
  }
}

}  // namespace

/// A byte-level model can be cut in the middle of a character, and its bytes need not be
/// UTF-8. The bytes of all tokens are therefore joined before ill-formed parts become
/// U+FFFD.
result<std::string> decode_ids(const tokenizer_parts& with,
                               std::span<const std::uint32_t> ids, bool skip_special) {
  std::string text;
  bool first = true;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::uint32_t id = ids[i];
    const std::string_view token = with.spelling(id);
    // A view without an address means that no token has this id. A token may be empty.
    if (token.data() == nullptr) {
      return error(errc::out_of_range,
                   fmt::format("cannot decode id {} at place {}: expected an id of the "
                               "vocabulary, which ends before {}, found none",
                               id, i, with.size))
          .hint("decode with the tokenizer that has made the ids");
    }
    // Special tokens are counted in the error above, but leave no text.
    if (skip_special && id < with.special.size() && with.special[id]) {
      continue;
    }
    append_decoded(with.decoder, token, first, text);
    // The first token that gives text, even if special ones were left out before it.
    first = false;
  }
  // Other decoders join texts that are UTF-8 already.
  if (with.decoder.type != token_decoder::kind::byte_level || is_utf8(text)) {
    return text;
  }
  std::string out;
  append_well_formed(out, text, false, nullptr);
  return out;
}

}  // namespace tokens

/// Ids are appended as they are found. If a pattern exceeds its limit, the ids before the
/// failure stay in the vector.
result<void> tokenizer::encode(std::string_view text, std::vector<std::uint32_t>& ids,
                               const encode_options& options) const {
  // The first byte that forms no character, for the message.
  if (!is_utf8(text)) {
    std::size_t at = 0;
    while (const std::size_t bytes = utf8_sequence_length(text.substr(at))) {
      at += bytes;
    }
    return error(errc::corrupt,
                 fmt::format(
                     "cannot encode a text: expected UTF-8, found the byte 0x{:02x} "
                     "at byte {}",
                     static_cast<unsigned char>(text[at]), at))
        .hint("a stream with invalid_utf8::replace reads U+FFFD in its place");
  }
  if (options.add_special_tokens) {
    ids.insert(ids.end(), parts_->prefix.begin(), parts_->prefix.end());
  }
  // Memory is taken from a pool and given back below, also after a failure.
  auto memory = parts_->pool.take();
  // The whole text is given at once, so neither end is open.
  const auto done = tokens::run_text(*parts_, text, false, false, ids, *memory);
  parts_->pool.give(std::move(memory));
  if (!done) {
    return done.error();
  }
  if (options.add_special_tokens) {
    ids.insert(ids.end(), parts_->suffix.begin(), parts_->suffix.end());
  }
  return {};
}

result<std::string> tokenizer::decode(std::span<const std::uint32_t> ids,
                                      const decode_options& options) const {
  return tokens::decode_ids(*parts_, ids, options.skip_special_tokens);
}

/// The number behind the largest id, also if ids below it are not used.
std::uint32_t tokenizer::vocabulary_size() const noexcept {
  return parts_->size;
}

std::optional<std::string_view> tokenizer::token(std::uint32_t id) const noexcept {
  const std::string_view spelling = parts_->spelling(id);
  return spelling.data() == nullptr ? std::nullopt : std::optional(spelling);
}

/// Added tokens come first, because their contents may also be in the vocabulary.
std::optional<std::uint32_t> tokenizer::id(std::string_view content) const noexcept {
  // There are few added tokens, mostly below a hundred.
  for (const added_token& token : parts_->added) {
    if (token.content == content) {
      return token.id;
    }
  }
  const std::uint32_t found = parts_->model.by_spelling.find(content);
  return found == tokens::no_id ? std::nullopt : std::optional(found);
}

std::span<const added_token> tokenizer::added_tokens() const noexcept {
  return parts_->added;
}

std::span<const std::uint32_t> tokenizer::prefix() const noexcept {
  return parts_->prefix;
}

std::span<const std::uint32_t> tokenizer::suffix() const noexcept {
  return parts_->suffix;
}

std::uint64_t tokenizer::digest() const noexcept {
  return parts_->digest;
}

}  // namespace weir::formats
