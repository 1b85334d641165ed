// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tokenizers from the values of GGUF keys.
///
/// GGUF stores the vocabulary, the merges and the types of tokens, but only the name of
/// the pre-tokenizer. The levels of each known name are written here; an unknown name is
/// refused, because a guess would give other ids.
/// @source{GGUF specification, tokenizer.ggml; llama.cpp names of pre-tokenizers}
#include <fmt/format.h>

#include <array>
#include <span>

#include "tokens/build.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/text.hpp"

namespace weir::formats {

namespace {

using namespace tokens;

/// Adds the levels that a name of a pre-tokenizer stands for.
/// The names and their patterns are those of llama.cpp. `starcoder` and `smollm` split
/// every digit alone, and Llama 3 takes whole words from the vocabulary without merges.
result<void> add_levels(tokenizer_parts& to, const std::string& name) {
  if (name == "smollm" || name == "starcoder") {
    // Digits first: the splits of GPT-2 alone keep numbers together.
    to.levels.push_back(property_level(&is_numeric, split_behavior::isolated));
  } else if (is_llama3(name) || name == "qwen2") {
    // Both have one pattern for everything. Only Qwen normalizes, and only Llama ignores
    // merges.
    const bool qwen = name == "qwen2";
    if (qwen) {
      normalize_step form;
      form.form = normal_form::nfc;
      to.normalizer.steps.push_back(form);
    }
    to.model.ignore_merges = !qwen;
    WEIR_TRY(auto level, search_level(qwen ? qwen2_pattern : llama3_pattern));
    to.levels.push_back(std::move(level));
    return {};
  } else if (name != "gpt-2" && name != "gpt2") {
    // Everything else is unknown. A name without meaning would give wrong ids.
    return error(errc::unsupported,
                 fmt::format("cannot read tokenizer.ggml.pre: expected gpt-2, smollm, "
                             "starcoder, llama-bpe or qwen2, found {}",
                             name.empty() ? "none" : json_quote(name)))
        .hint("use the tokenizer.json of the model");
  }
  // The pattern of GPT-2 is the last level of all that come here.
  WEIR_TRY(auto level, search_level(gpt2_pattern));
  to.levels.push_back(std::move(level));
  return {};
}

/// Reads merges, each two tokens with one space between them. No token of a byte-level
/// vocabulary contains a space, which is spelled U+0120 there.
result<void> add_merges(model& to, const std::vector<std::string>& merges) {
  std::vector<std::pair<std::string, std::string>> pairs;
  pairs.reserve(merges.size());
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const std::size_t space = merges[i].find(' ');
    // Exactly one space, with text on both sides.
    if (space == std::string::npos || space == 0 || space + 1 == merges[i].size() ||
        merges[i].find(' ', space + 1) != std::string::npos) {
      return error(
          errc::corrupt,
          fmt::format("cannot read tokenizer.ggml.merges[{}]: expected two tokens "
                      "with a space between them, found {}",
                      i, json_quote(merges[i])));
    }
    pairs.emplace_back(merges[i].substr(0, space), merges[i].substr(space + 1));
  }
  return set_merges(to, pairs);
}

/// Writes a token of a BERT vocabulary as WordPiece has it: GGUF marks the tokens that
/// begin a word, WordPiece those that continue one.
std::string wordpiece_spelling(const std::string& token, bool control) {
  // Control tokens are no words and have no mark in either form.
  if (control) {
    return token;
  }
  return token.starts_with(word_mark) ? token.substr(word_mark.size()) : "##" + token;
}

/// Checks an id of a special token, if it is there.
result<void> check_id(const gguf_tokenizer& keys, const char* key,
                      std::optional<std::uint32_t> id) {
  // An id that is absent is none to check.
  if (id && *id >= keys.tokens.size()) {
    return error(errc::corrupt,
                 fmt::format("cannot read {}: expected an id below {}, found {}", key,
                             keys.tokens.size(), *id));
  }
  return {};
}

/// Sets what every `bert` vocabulary of llama.cpp uses: the normalizer in lower case,
/// white space removed, punctuation alone.
void set_bert(tokenizer_parts& to) {
  // The tokens are those of WordPiece, and so is the way back to text.
  to.model.type = model::kind::wordpiece;
  to.decoder.type = token_decoder::kind::wordpiece;
  // The default of this step is lower case, without accents.
  normalize_step bert;
  bert.type = normalize_step::kind::bert;
  to.normalizer.steps.push_back(bert);
  to.levels.push_back(property_level(&is_space, split_behavior::removed));
  to.levels.push_back(property_level(&is_punctuation, split_behavior::isolated));
}

/// Checks what later steps rely on: one type for each token (or none at all), a known
/// model, and ids within the vocabulary.
result<void> check_keys(const gguf_tokenizer& keys) {
  // An empty list of types means that all tokens are normal.
  if (keys.tokens.empty() ||
      (!keys.token_type.empty() && keys.token_type.size() != keys.tokens.size())) {
    return error(errc::corrupt,
                 fmt::format("cannot read tokenizer.ggml.token_type: expected a type for "
                             "each of {} tokens, at least one, found {}",
                             keys.tokens.size(), keys.token_type.size()));
  }
  if (keys.model != "bert" && keys.model != "gpt2") {
    return error(errc::unsupported,
                 fmt::format("cannot read tokenizer.ggml.model: expected gpt2 or bert, "
                             "found {}",
                             json_quote(keys.model)))
        .hint("use the tokenizer.json of the model");
  }
  WEIR_CHECK(check_id(keys, "tokenizer.ggml.bos_token_id", keys.bos));
  WEIR_CHECK(check_id(keys, "tokenizer.ggml.eos_token_id", keys.eos));
  return check_id(keys, "tokenizer.ggml.unknown_token_id", keys.unknown);
}

/// Hashes all keys. Each text is preceded by its size, so that moving a byte from one
/// text to the next changes the digest. A cursor of a stream holds this digest.
std::uint64_t digest_of(const gguf_tokenizer& keys) {
  // The size of a text is hashed as eight bytes.
  xxh3_stream hash;
  const auto add = [&](const std::string& text) {
    const std::uint64_t size = text.size();
    hash.update(std::as_bytes(std::span(&size, 1)));
    hash.update(as_view(text));
  };
  // Each key is hashed, in a fixed order.
  add(keys.model);
  add(keys.pre);
  for (const std::string& token : keys.tokens) {
    add(token);
  }
  for (const std::string& merge : keys.merges) {
    add(merge);
  }
  hash.update(std::as_bytes(std::span(keys.token_type)));
  // An absent id is hashed as a number that no id has.
  const std::array<std::uint32_t, 3> ids = {
      keys.bos.value_or(no_id), keys.eos.value_or(no_id), keys.unknown.value_or(no_id)};
  hash.update(std::as_bytes(std::span(ids)));
  return hash.digest();
}

}  // namespace

bool tokens::is_llama3(std::string_view pre) noexcept {
  return pre == "llama-bpe" || pre == "llama3" || pre == "llama-v3";
}

/// A control token is special; a user-defined one is not. The unknown token of `bert`
/// keeps its spelling, because it is no word.
result<tokenizer> tokenizer::from_gguf(const gguf_tokenizer& keys) {
  WEIR_CHECK(check_keys(keys));
  const bool bert = keys.model == "bert";
  auto parts = std::make_shared<tokenizer_parts>();
  // Vocabulary and added tokens are collected first, because both are checked as a whole.
  std::vector<std::pair<std::string, std::uint64_t>> entries;
  std::vector<added_token> added;
  for (std::uint32_t id = 0; id < keys.tokens.size(); ++id) {
    // Without types, all tokens are normal.
    const std::int32_t type = keys.token_type.empty() ? 1 : keys.token_type[id];
    const bool control = type == type_control || id == keys.unknown;
    entries.emplace_back(
        bert ? wordpiece_spelling(keys.tokens[id], control) : keys.tokens[id], id);
    // Both kinds are found in a text before it is split.
    if (type == type_control || type == type_user_defined) {
      added_token token;
      token.content = keys.tokens[id];
      token.id = id;
      token.special = type == type_control;
      added.push_back(std::move(token));
    }
  }
  // Fails if an id or a token occurs twice.
  WEIR_CHECK(set_vocabulary(parts->model, std::move(entries)));
  // WordPiece cannot do without an unknown token.
  if (bert) {
    if (!keys.unknown) {
      return error(
          errc::corrupt,
          "cannot read tokenizer.ggml.unknown_token_id: expected an id for model "
          "bert, found none");
    }
    parts->model.unknown = *keys.unknown;
    set_bert(*parts);
  } else {
    // Byte-level tokens spell each byte as a character.
    parts->model.byte_level = true;
    parts->decoder.type = token_decoder::kind::byte_level;
    WEIR_CHECK(add_levels(*parts, keys.pre));
    WEIR_CHECK(add_merges(parts->model, keys.merges));
  }
  // The tables of bytes need vocabulary and settings.
  prepare_model(parts->model);
  WEIR_CHECK(set_added(*parts, std::move(added)));
  // Ids that stand at both ends of each text.
  if (keys.bos) {
    parts->prefix.push_back(*keys.bos);
  }
  if (keys.eos) {
    parts->suffix.push_back(*keys.eos);
  }
  parts->digest = digest_of(keys);
  return tokenizer(std::move(parts));
}

}  // namespace weir::formats
