// SPDX-License-Identifier: Apache-2.0
/// @file
/// Converts `tokenizer.json` to GGUF keys and back.
/// @source{Hugging Face tokenizers 0.23, the serialization of its components; GGUF
/// specification, tokenizer.ggml; llama.cpp, conversion of vocabularies}
///
/// The way to GGUF first reads the JSON as a tokenizer, which checks it, and then
/// compares its components with the few that GGUF has names for. The way back makes a
/// tokenizer of the keys first, for the same reason, and then writes the components that
/// the names stand for.
#include "weir/formats/tokenizer_forms.hpp"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "tokens/build.hpp"
#include "weir/base/text.hpp"

namespace weir::formats {

namespace {

using namespace tokens;
using nlohmann::json;
using nlohmann::ordered_json;

/// Prefix of tokens that continue a word in WordPiece. GGUF marks the other tokens
/// instead.
constexpr std::string_view continuation = "##";
/// Characters of the longest word of BERT. GGUF does not store it.
constexpr int max_word = 100;

/// Returns the error for a component without a form in GGUF.
error no_gguf_form(const std::string& name, std::string_view part,
                   std::string_view expected) {
  return error(errc::unsupported,
               fmt::format("cannot convert the tokenizer to GGUF: expected {} of {}, "
                           "found another one",
                           part, expected))
      .located(name);
}

/// Returns the error for a property that GGUF does not store and on which ids depend.
error not_kept(const std::string& name, std::string_view expected,
               std::string_view found) {
  return error(errc::unsupported,
               fmt::format("cannot convert the tokenizer to GGUF: expected {}, found {}",
                           expected, found))
      .hint("use the tokenizer.json of the model")
      .located(name);
}

/// Returns a member of an object that `tokenizer::from_json` has accepted, or null.
const json& member_or_none(const json& from, const char* key) {
  // The reference must outlive the call, so the value that stands for none is a static
  // one.
  static const json none;
  // A member of something that is no object is absent.
  const auto found = from.is_object() ? from.find(key) : from.end();
  return from.is_object() && found != from.end() ? *found : none;
}

/// Returns whether a component has a type; false for null.
bool has_type(const json& component, std::string_view type) {
  return member_or_none(component, "type") == type;
}

/// Returns whether a component is ByteLevel without a space in front, with or without the
/// pattern of GPT-2. An absent `use_regex` means true.
bool is_byte_level(const json& component, bool with_pattern) {
  const json& pattern = member_or_none(component, "use_regex");
  return has_type(component, "ByteLevel") &&
         member_or_none(component, "add_prefix_space") == false &&
         (pattern.is_null() ? with_pattern : pattern == with_pattern);
}

/// Returns the name of GGUF for the pre-tokenizer of a byte-level model; empty if it has
/// none.
/// The whole description is compared, since a name stands for the normalizer, the levels
/// and `ignore_merges` together (see `add_levels` in keys.cpp, its counterpart).
std::string name_of_split(const json& description) {
  const json& pre = member_or_none(description, "pre_tokenizer");
  const json& normalizer = member_or_none(description, "normalizer");
  // An absent member means false.
  const bool merges =
      member_or_none(member_or_none(description, "model"), "ignore_merges") != true;
  // GPT-2 is the only one that is not a sequence.
  if (is_byte_level(pre, true)) {
    return normalizer.is_null() && merges ? "gpt-2" : "";
  }
  const json& list = member_or_none(pre, "pretokenizers");
  if (!has_type(pre, "Sequence") || !list.is_array() || list.size() != 2) {
    return "";
  }
  // Digits one by one, and then the pattern of GPT-2.
  if (has_type(list[0], "Digits") && is_byte_level(list[1], true)) {
    const bool each = member_or_none(list[0], "individual_digits") == true;
    return each && normalizer.is_null() && merges ? "smollm" : "";
  }
  // Llama and Qwen have a pattern of their own, and ByteLevel behind it without one.
  const json& pattern = member_or_none(member_or_none(list[0], "pattern"), "Regex");
  if (!has_type(list[0], "Split") || !is_byte_level(list[1], false) ||
      member_or_none(list[0], "behavior") != "Isolated" ||
      member_or_none(list[0], "invert") != false) {
    return "";
  }
  if (pattern == llama3_pattern && !merges && normalizer.is_null()) {
    return "llama-bpe";
  }
  // The two patterns differ, and so do normalizer and merges.
  return pattern == qwen2_pattern && merges && has_type(normalizer, "NFC") ? "qwen2" : "";
}

/// Sets the tokens by id and their types. Ids without a token become unused ones.
/// In a `bert` list, a word begins with U+2581 and a continuation has no mark, the
/// opposite of WordPiece. Control tokens and the unknown token are spelled as they are.
result<void> list_tokens(const tokenizer& from, const std::string& name, bool bert,
                         gguf_tokenizer& to) {
  const std::uint32_t size = from.vocabulary_size();
  // Counted first, because the list has an entry for every id.
  std::size_t present = 0;
  for (std::uint32_t id = 0; id < size; ++id) {
    present += from.token(id) ? 1 : 0;
  }
  // A gap of many ids would make the list far longer than the description.
  if (size > 2 * present + 1024) {
    return no_gguf_form(name, "ids without gaps", "every token");
  }
  to.token_type.assign(size, type_normal);
  for (const added_token& token : from.added_tokens()) {
    // All added tokens of BERT are control tokens, which keep their spelling.
    to.token_type[token.id] = token.special || bert ? type_control : type_user_defined;
  }
  for (std::uint32_t id = 0; id < size; ++id) {
    const auto content = from.token(id);
    if (!content) {
      // The name that llama.cpp gives to ids that are not used.
      to.tokens.push_back(fmt::format("[PAD{}]", id));
      to.token_type[id] = type_unused;
    } else if (!bert || to.token_type[id] == type_control || id == to.unknown) {
      to.tokens.emplace_back(*content);
    } else if (content->starts_with(continuation)) {
      // A continuation has no mark in GGUF.
      to.tokens.emplace_back(content->substr(continuation.size()));
    } else {
      // A beginning has one.
      to.tokens.push_back(std::string(word_mark) + std::string(*content));
    }
  }
  return {};
}

/// Checks that the flags of added tokens, which GGUF does not store, change no ids: none
/// may be single or take white space along. A normalized token is looked for in the
/// normalized text and behind the others, so all or none must be normalized, and all only
/// if there is no normalizer.
result<void> check_added(const tokenizer& from, bool normalizes,
                         const std::string& name) {
  const std::span<const added_token> all = from.added_tokens();
  for (const added_token& token : all) {
    if (token.single_word || token.lstrip || token.rstrip ||
        (token.normalized && normalizes)) {
      return not_kept(name,
                      "added tokens without single_word, lstrip, rstrip and normalized",
                      fmt::format("such a flag of {}", json_quote(token.content)));
    }
    if (const added_token& first = all.front(); token.normalized != first.normalized) {
      const auto in_words = [](const added_token& t) {
        return fmt::format("{} {} normalized", json_quote(t.content),
                           t.normalized ? "with" : "without");
      };
      return not_kept(name, "normalized for all added tokens or for none",
                      fmt::format("{} and {}", in_words(first), in_words(token)));
    }
  }
  return {};
}

/// Checks what GGUF does not store of WordPiece: the longest word, and the mark of
/// continuations, which would be lost in front of the mark of beginnings.
result<void> check_wordpiece(const tokenizer& from, const json& model,
                             const std::string& name) {
  const json& longest = member_or_none(model, "max_input_chars_per_word");
  if (longest != max_word) {
    return not_kept(name, fmt::format("max_input_chars_per_word {}", max_word),
                    longest.dump());
  }
  for (std::uint32_t id = 0; id < from.vocabulary_size(); ++id) {
    const std::string_view token = from.token(id).value_or(std::string_view());
    if (token.starts_with(continuation) &&
        token.substr(continuation.size()).starts_with(word_mark)) {
      return not_kept(name, "no U+2581 behind the mark of a continuation",
                      json_quote(token));
    }
  }
  return {};
}

/// Checks that every byte has a token. GGUF does not store what becomes of bytes without
/// one: an unknown token, or tokens of hexadecimal numbers.
result<void> check_bytes(const tokenizer& from, const json& model,
                         const std::string& name) {
  if (member_or_none(model, "unk_token").is_null() &&
      member_or_none(model, "byte_fallback") != true) {
    return {};
  }
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::string spelling;
    append_character(spelling, character_of_byte(byte));
    if (!from.id(spelling)) {
      return not_kept(name, "a token for every byte, as unknown ones are replaced",
                      fmt::format("none for byte {}", byte));
    }
  }
  return {};
}

/// GGUF has both tokens of a merge in one text, with a space between them.
void list_merges(const json& model, gguf_tokenizer& to) {
  for (const json& merge : member_or_none(model, "merges")) {
    // The JSON may have a merge as one text or as two.
    to.merges.push_back(merge.is_string() ? merge.get<std::string>()
                                          : merge[0].get<std::string>() + " " +
                                                merge[1].get<std::string>());
  }
}

/// Returns whether the parts of a WordPiece tokenizer are those that GGUF means.
bool is_plain_bert(const json& description) {
  const json& normalizer = member_or_none(description, "normalizer");
  // Absent members have their default, which is true, or null for accents.
  const auto not_false = [&](const char* key) {
    return member_or_none(normalizer, key) != false;
  };
  return has_type(normalizer, "BertNormalizer") && not_false("clean_text") &&
         not_false("handle_chinese_chars") && not_false("lowercase") &&
         not_false("strip_accents") &&
         has_type(member_or_none(description, "pre_tokenizer"), "BertPreTokenizer") &&
         // The prefix is not stored in GGUF, so only the usual one can be converted.
         member_or_none(member_or_none(description, "model"),
                        "continuing_subword_prefix") == continuation;
}

/// Returns the one id of a prefix or a suffix.
/// GGUF has one key for the id before a text, and one for the id behind it.
result<std::optional<std::uint32_t>> only_id(std::span<const std::uint32_t> ids,
                                             const std::string& name) {
  // BERT has one id on each side, and so have all others that are known here.
  if (ids.size() > 1) {
    return no_gguf_form(name, "at most one id", "the ids before and behind a text");
  }
  return ids.empty() ? std::nullopt : std::optional(ids[0]);
}

}  // namespace

result<gguf_tokenizer> tokenizer_keys_of_json(bytes_view text, const std::string& name) {
  WEIR_TRY(const tokenizer read, tokenizer::from_json(text, name));
  // The text was parsed by `from_json` before, so it is JSON.
  const json description = json::parse(as_text(text), nullptr, false);
  const json& model = member_or_none(description, "model");
  gguf_tokenizer keys;
  // The ids are those that the post-processor adds, whatever its form is.
  WEIR_TRY(keys.bos, only_id(read.prefix(), name));
  WEIR_TRY(keys.eos, only_id(read.suffix(), name));
  const json& unknown = member_or_none(model, "unk_token");
  // The unknown token is a text in JSON and an id in GGUF.
  if (unknown.is_string()) {
    keys.unknown = read.id(unknown.get<std::string>());
  }
  const bool bert = has_type(model, "WordPiece");
  if (bert && !is_plain_bert(description)) {
    return no_gguf_form(name, "the normalizer and pre-tokenizer", "BERT, lower case");
  }
  // The names are those of llama.cpp.
  keys.model = bert ? "bert" : "gpt2";
  keys.pre = bert ? "" : name_of_split(description);
  if (!bert && keys.pre.empty()) {
    return no_gguf_form(name, "the normalizer and pre-tokenizer",
                        "GPT-2, SmolLM, Llama 3 or Qwen 2");
  }
  WEIR_CHECK(
      check_added(read, !member_or_none(description, "normalizer").is_null(), name));
  WEIR_CHECK(bert ? check_wordpiece(read, model, name) : check_bytes(read, model, name));
  WEIR_CHECK(list_tokens(read, name, bert, keys));
  // Absent for WordPiece, which gives no merges.
  list_merges(model, keys);
  return keys;
}

namespace {

/// Returns the component ByteLevel. It serves as a pre-tokenizer and as a decoder.
ordered_json byte_level_component(bool with_pattern) {
  ordered_json out;
  out["type"] = "ByteLevel";
  out["add_prefix_space"] = false;
  // Only matters for offsets, which are no ids.
  out["trim_offsets"] = true;
  out["use_regex"] = with_pattern;
  return out;
}

/// Returns a sequence of two pre-tokenizers.
ordered_json sequence_of(ordered_json first, ordered_json second) {
  ordered_json out;
  out["type"] = "Sequence";
  // The order of the two matters.
  out["pretokenizers"] = ordered_json::array({std::move(first), std::move(second)});
  return out;
}

/// Returns the pre-tokenizer that a name of GGUF stands for.
/// This is the counterpart of `name_of_split`.
ordered_json split_named(const std::string& pre) {
  if (pre == "smollm" || pre == "starcoder") {
    ordered_json digits;
    digits["type"] = "Digits";
    digits["individual_digits"] = true;
    return sequence_of(std::move(digits), byte_level_component(true));
  }
  // GPT-2, under either of its names.
  if (!is_llama3(pre) && pre != "qwen2") {
    return byte_level_component(true);
  }
  ordered_json split;
  split["type"] = "Split";
  // The same constants as in the other direction.
  split["pattern"]["Regex"] = pre == "qwen2" ? qwen2_pattern : llama3_pattern;
  split["behavior"] = "Isolated";
  split["invert"] = false;
  return sequence_of(std::move(split), byte_level_component(false));
}

/// Returns the post-processor that puts ids before and behind a text; null for none.
/// The template for pairs is required by the reference. It has no special tokens, because
/// GGUF does not describe pairs.
ordered_json template_of(const gguf_tokenizer& keys) {
  if (!keys.bos && !keys.eos) {
    return nullptr;
  }
  // Pieces in their order, and the tokens that occur in them.
  ordered_json single = ordered_json::array(), known = ordered_json::object();
  const auto add = [&](std::optional<std::uint32_t> id) {
    if (!id) {
      return;
    }
    const std::string& content = keys.tokens[*id];
    ordered_json piece;
    piece["SpecialToken"]["id"] = content;
    piece["SpecialToken"]["type_id"] = 0;
    single.push_back(std::move(piece));
    // A token that stands at both ends is entered once.
    known[content]["id"] = content;
    known[content]["ids"] = {*id};
    known[content]["tokens"] = {content};
  };
  const auto text = [&](const char* id, int type) {
    ordered_json piece;
    piece["Sequence"]["id"] = id;
    piece["Sequence"]["type_id"] = type;
    return piece;
  };
  // The text stands between both ids.
  add(keys.bos);
  single.push_back(text("A", 0));
  add(keys.eos);
  ordered_json out;
  out["type"] = "TemplateProcessing";
  out["single"] = std::move(single);
  out["pair"] = ordered_json::array({text("A", 0), text("B", 1)});
  out["special_tokens"] = std::move(known);
  return out;
}

/// Returns the added tokens: those with a type of their own, and the unknown token of
/// BERT.
/// GGUF has no flags of added tokens, so all of them are off, as in `from_gguf`.
ordered_json added_of(const gguf_tokenizer& keys) {
  ordered_json out = ordered_json::array();
  for (std::uint32_t id = 0; id < keys.token_type.size(); ++id) {
    const std::int32_t type = keys.token_type[id];
    // Normal tokens are in the vocabulary alone.
    if (type != type_control && type != type_user_defined) {
      continue;
    }
    ordered_json token;
    token["id"] = id;
    token["content"] = keys.tokens[id];
    for (const char* flag : {"single_word", "lstrip", "rstrip", "normalized"}) {
      token[flag] = false;
    }
    token["special"] = type == type_control;
    out.push_back(std::move(token));
  }
  return out;
}

/// Sets the normalizer and the pre-tokenizer that GGUF means by `bert`.
void set_bert_parts(ordered_json& out) {
  ordered_json& normalizer = out["normalizer"];
  normalizer["type"] = "BertNormalizer";
  normalizer["clean_text"] = true;
  normalizer["handle_chinese_chars"] = true;
  // Null means: as `lowercase` says.
  normalizer["strip_accents"] = nullptr;
  normalizer["lowercase"] = true;
  out["pre_tokenizer"]["type"] = "BertPreTokenizer";
}

/// Returns the model: the vocabulary as the tokenizer spells it, and the merges.
ordered_json model_of(const gguf_tokenizer& keys, const tokenizer& made, bool bert) {
  ordered_json out;
  out["type"] = bert ? "WordPiece" : "BPE";
  if (bert) {
    out["unk_token"] = keys.tokens[*keys.unknown];
    out["continuing_subword_prefix"] = continuation;
    out["max_input_chars_per_word"] = max_word;
  } else {
    for (const char* key :
         // BPE without any of the variations.
         {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"}) {
      out[key] = nullptr;
    }
    out["fuse_unk"] = false;
    out["byte_fallback"] = false;
    out["ignore_merges"] = is_llama3(keys.pre);
  }
  // A look-up of each key would take quadratic time; `from_gguf` has refused tokens that
  // occur twice.
  // The members are appended directly.
  ordered_json vocabulary = ordered_json::object();
  auto& members = vocabulary.get_ref<ordered_json::object_t&>();
  for (std::uint32_t id = 0; id < keys.tokens.size(); ++id) {
    // WordPiece spellings come from the tokenizer, which has converted the marks.
    members.emplace_back(std::string(made.token(id).value_or(keys.tokens[id])), id);
  }
  out["vocab"] = std::move(vocabulary);
  if (!bert) {
    ordered_json merges = ordered_json::array();
    for (const std::string& merge : keys.merges) {
      // Each merge has one space, which `from_gguf` has checked.
      const std::size_t space = merge.find(' ');
      merges.push_back({merge.substr(0, space), merge.substr(space + 1)});
    }
    out["merges"] = std::move(merges);
  }
  return out;
}

}  // namespace

// Making the tokenizer first checks the keys, so that nothing is written of bad ones.
result<std::string> tokenizer_json_of(const gguf_tokenizer& keys) {
  WEIR_TRY(const tokenizer made, tokenizer::from_gguf(keys));
  const bool bert = keys.model == "bert";
  ordered_json out;
  // The version of the format, not that of the tokenizer.
  out["version"] = "1.0";
  // Neither is part of a tokenizer.
  out["truncation"] = nullptr;
  out["padding"] = nullptr;
  out["added_tokens"] = added_of(keys);
  out["normalizer"] = nullptr;
  if (bert) {
    set_bert_parts(out);
  } else {
    if (keys.pre == "qwen2") {
      out["normalizer"] = {{"type", "NFC"}};
    }
    out["pre_tokenizer"] = split_named(keys.pre);
  }
  out["post_processor"] = template_of(keys);
  ordered_json& decoder = out["decoder"];
  if (bert) {
    // The decoder undoes what the splits have removed.
    decoder["type"] = "WordPiece";
    decoder["prefix"] = continuation;
    decoder["cleanup"] = true;
  } else {
    decoder = byte_level_component(true);
  }
  out["model"] = model_of(keys, made, bert);
  // Indented by one space.
  return out.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace weir::formats
