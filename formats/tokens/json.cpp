// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads `tokenizer.json`.
///
/// The members are read in an order in which each finds what it depends on: the
/// normalizer, the pre-tokenizer, the model, the added tokens (their ids follow from the
/// vocabulary, their normal forms from the normalizer), the post-processor, the decoder.
/// `build.cpp` checks the values that GGUF files and JSON have in common.
/// @source{Hugging Face tokenizers 0.23, the serialization of its components}
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tokens/build.hpp"
#include "tokens/json_node.hpp"
#include "weir/base/container/json_depth.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/text.hpp"

namespace weir::formats {

namespace {

using namespace tokens;
using nlohmann::json;

/// Largest depth of nested sequences of components.
constexpr int max_depth = 16;
/// Largest number of pre-tokenizers.
constexpr std::size_t max_levels = 64;

/// Returns the behavior of a split by its name in the reference.
result<split_behavior> behavior_of(const node& at) {
  WEIR_TRY(const std::string name, at.text());
  if (name == "Removed")
    return split_behavior::removed;
  if (name == "Isolated")
    return split_behavior::isolated;
  if (name == "MergedWithPrevious")
    return split_behavior::merged_with_previous;
  if (name == "MergedWithNext")
    return split_behavior::merged_with_next;
  if (name == "Contiguous")
    return split_behavior::contiguous;
  return at.wrong("Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

/// Reads a normalizer that replaces one text by another. The reference also knows regular
/// expressions in its place, which are refused.
result<void> read_replace(const node& at, normalize_step& step) {
  step.type = normalize_step::kind::replace;
  WEIR_TRY(const node pattern, at.member("pattern"));
  WEIR_TRY(const node text, pattern.member_or_null("String"));
  if (text.is_null()) {
    return pattern.unsupported("{\"String\": text}");
  }
  WEIR_TRY(step.from, text.text());
  if (step.from.empty()) {
    return text.wrong("a text that is not empty");
  }
  WEIR_TRY(step.to, at.text_of("content"));
  return {};
}

/// Reads BERT's normalizer. Accents are stripped exactly if letters are made lower case,
/// unless the file says otherwise.
result<void> read_bert_normalizer(const node& at, normalize_step& step) {
  step.type = normalize_step::kind::bert;
  WEIR_TRY(step.clean, at.flag("clean_text", std::nullopt));
  WEIR_TRY(step.chinese, at.flag("handle_chinese_chars", std::nullopt));
  WEIR_TRY(step.lower, at.flag("lowercase", std::nullopt));
  WEIR_TRY(step.strip_accents, at.flag("strip_accents", step.lower));
  return {};
}

/// Appends the steps of a normalizer. Nested sequences are flattened, because the order
/// of the steps is all that they say. `depth` bounds the recursion.
result<void> read_normalizer(const node& at, normalizer& to, int depth) {
  if (at.is_null()) {
    return {};
  }
  WEIR_TRY(const std::string type, at.text_of("type"));
  if (type == "Sequence") {
    WEIR_TRY(const node list, at.member("normalizers"));
    WEIR_TRY(const std::size_t count, list.size());
    if (depth == max_depth) {
      return at.wrong("at most 16 nested sequences");
    }
    for (std::size_t i = 0; i < count; ++i) {
      WEIR_CHECK(read_normalizer(list.element(i), to, depth + 1));
    }
    return {};
  }
  normalize_step step;
  if (type == "BertNormalizer") {
    WEIR_CHECK(read_bert_normalizer(at, step));
  } else if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    step.form = type == "NFC"    ? normal_form::nfc
                : type == "NFD"  ? normal_form::nfd
                : type == "NFKC" ? normal_form::nfkc
                                 : normal_form::nfkd;
  } else if (type == "Lowercase") {
    step.type = normalize_step::kind::lower;
  } else if (type == "Prepend") {
    step.type = normalize_step::kind::prepend;
    WEIR_TRY(step.to, at.text_of("prepend"));
  } else if (type == "Replace") {
    WEIR_CHECK(read_replace(at, step));
  } else {
    return at.unsupported(
        "a normalizer Sequence, BertNormalizer, NFC, NFD, NFKC, NFKD, Lowercase, Prepend "
        "or Replace");
  }
  to.steps.push_back(std::move(step));
  return {};
}

/// Reads a level that splits at matches of a pattern ("Regex") or of a text ("String").
result<split_level> read_split(const node& at) {
  WEIR_TRY(const node pattern, at.member("pattern"));
  WEIR_TRY(const node regex, pattern.member_or_null("Regex"));
  WEIR_TRY(const node behavior_node, at.member("behavior"));
  WEIR_TRY(const split_behavior behavior, behavior_of(behavior_node));
  split_level out;
  if (!regex.is_null()) {
    WEIR_TRY(const std::string text, regex.text());
    WEIR_TRY(out, search_level(text, behavior));
  } else {
    WEIR_TRY(const node text, pattern.member("String"));
    out.type = split_level::kind::literal;
    WEIR_TRY(out.text, text.text());
    if (out.text.empty()) {
      return text.wrong("a text that is not empty");
    }
    out.behavior = behavior;
  }
  WEIR_TRY(out.invert, at.flag("invert", std::nullopt));
  return out;
}

/// Reads the level of ByteLevel: the pattern of GPT-2 unless `use_regex` is false. The
/// other half of ByteLevel, the spelling of bytes as characters, is `model::byte_level`.
result<split_level> read_byte_level(const node& at) {
  split_level out;
  WEIR_TRY(const bool with_pattern, at.flag("use_regex", true));
  if (with_pattern) {
    WEIR_TRY(out, search_level(gpt2_pattern));
  }
  WEIR_TRY(out.prefix_space, at.flag("add_prefix_space", std::nullopt));
  return out;
}

/// Appends the levels of a pre-tokenizer. ByteLevel must be the last one: behind it the
/// reference would split the characters that stand for bytes, and these levels see the
/// text.
result<void> read_pre_tokenizer(const node& at, tokenizer_parts& to, int depth) {
  if (at.is_null()) {
    return {};
  }
  WEIR_TRY(const std::string type, at.text_of("type"));
  if (to.model.byte_level) {
    return at.unsupported("no pre-tokenizer behind ByteLevel");
  }
  if (type == "Sequence") {
    WEIR_TRY(const node list, at.member("pretokenizers"));
    WEIR_TRY(const std::size_t count, list.size());
    if (depth == max_depth) {
      return at.wrong("at most 16 nested sequences");
    }
    for (std::size_t i = 0; i < count; ++i) {
      WEIR_CHECK(read_pre_tokenizer(list.element(i), to, depth + 1));
    }
    return {};
  }
  // Splitting calls itself once for each level.
  if (to.levels.size() == max_levels) {
    return at.wrong(fmt::format("at most {} pre-tokenizers", max_levels));
  }
  split_level level;
  if (type == "ByteLevel") {
    to.model.byte_level = true;
    WEIR_TRY(level, read_byte_level(at));
  } else if (type == "Split") {
    WEIR_TRY(level, read_split(at));
  } else if (type == "Digits") {
    WEIR_TRY(const bool each, at.flag("individual_digits", std::nullopt));
    level = property_level(&is_numeric,
                           each ? split_behavior::isolated : split_behavior::contiguous);
  } else if (type == "Whitespace") {
    level.type = split_level::kind::words;
    level.invert = true;
    level.behavior = split_behavior::removed;
  } else if (type == "WhitespaceSplit") {
    level = property_level(&is_space, split_behavior::removed);
  } else if (type == "BertPreTokenizer") {
    to.levels.push_back(property_level(&is_space, split_behavior::removed));
    level = property_level(&is_punctuation, split_behavior::isolated);
  } else if (type == "Punctuation") {
    WEIR_TRY(const node behavior_node, at.member_or_null("behavior"));
    level = property_level(&is_punctuation, split_behavior::isolated);
    if (!behavior_node.is_null()) {
      WEIR_TRY(level.behavior, behavior_of(behavior_node));
    }
  } else {
    return at.unsupported(
        "a pre-tokenizer Sequence, ByteLevel, Split, Digits, Whitespace, "
        "WhitespaceSplit, "
        "BertPreTokenizer or Punctuation");
  }
  to.levels.push_back(std::move(level));
  return {};
}

/// Reads tokens and ids. An object may list them in any order and with gaps.
result<void> read_vocabulary(const node& at, model& to) {
  WEIR_TRY(const node vocabulary, at.member("vocab"));
  if (!vocabulary.value().is_object()) {
    return vocabulary.wrong("an object of tokens and their ids");
  }
  std::vector<std::pair<std::string, std::uint64_t>> entries;
  entries.reserve(vocabulary.value().size());
  for (const auto& [token, id] : vocabulary.value().items()) {
    if (!id.is_number_unsigned()) {
      return node(id, fmt::format("{}[{}]", vocabulary.path(),
                                  json_quote(token.substr(0, 40))))
          .wrong("an id");
    }
    entries.emplace_back(token, id.get<std::uint64_t>());
  }
  return set_vocabulary(to, std::move(entries));
}

/// Reads merges in the order of their ranks. Versions of the reference before 0.20 write
/// "left right", later ones [left, right], which allows tokens with a space.
result<void> read_merges(const node& at, model& to) {
  WEIR_TRY(const node list, at.member("merges"));
  WEIR_TRY(const std::size_t count, list.size());
  std::vector<std::pair<std::string, std::string>> pairs;
  pairs.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const json& pair = list.value()[i];
    if (pair.is_array() && pair.size() == 2 && pair[0].is_string() &&
        pair[1].is_string()) {
      pairs.emplace_back(pair[0].get<std::string>(), pair[1].get<std::string>());
      continue;
    }
    const std::string text = pair.is_string() ? pair.get<std::string>() : std::string();
    const std::size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      return list.element(i).wrong("two tokens: [left, right] or \"left right\"");
    }
    pairs.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return set_merges(to, pairs);
}

/// Finds the id of the unknown token, which must be in the vocabulary.
result<void> read_unknown(const node& at, model& to, bool needed) {
  WEIR_TRY(const node name,
           needed ? at.member("unk_token") : at.member_or_null("unk_token"));
  if (name.is_null() && !needed) {
    return {};
  }
  WEIR_TRY(const std::string text, name.text());
  to.unknown = to.by_spelling.find(text);
  if (to.unknown == no_id) {
    return name.wrong("a token of the vocabulary");
  }
  return {};
}

/// Reads BPE. Variations that change the merges, such as dropout, are refused.
result<void> read_bpe(const node& at, model& to) {
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    WEIR_TRY(const node text, at.member_or_null(key));
    if (!text.is_null() && text.value() != "") {
      return text.unsupported("null");
    }
  }
  WEIR_TRY(const node dropout, at.member_or_null("dropout"));
  if (!dropout.is_null() && dropout.value() != 0) {
    return dropout.unsupported("null, because dropout is random");
  }
  WEIR_TRY(to.byte_fallback, at.flag("byte_fallback", false));
  WEIR_TRY(to.fuse_unknown, at.flag("fuse_unk", false));
  WEIR_TRY(to.ignore_merges, at.flag("ignore_merges", false));
  WEIR_CHECK(read_vocabulary(at, to));
  WEIR_CHECK(read_unknown(at, to, false));
  return read_merges(at, to);
}

/// Reads the model. Files of early versions have no member "type"; then the member
/// "merges" tells BPE from WordPiece.
result<void> read_model(const node& at, model& to) {
  WEIR_TRY(const node type, at.member_or_null("type"));
  std::string name = at.value().contains("merges") ? "BPE" : "WordPiece";
  if (!type.is_null()) {
    WEIR_TRY(name, type.text());
  }
  if (name == "BPE") {
    WEIR_CHECK(read_bpe(at, to));
  } else if (name == "WordPiece") {
    to.type = model::kind::wordpiece;
    WEIR_TRY(to.prefix, at.text_of("continuing_subword_prefix"));
    WEIR_TRY(const node longest, at.member("max_input_chars_per_word"));
    WEIR_TRY(to.max_characters, longest.number(max_token_bytes));
    WEIR_CHECK(read_vocabulary(at, to));
    WEIR_CHECK(read_unknown(at, to, true));
  } else {
    return type.unsupported("a model BPE or WordPiece");
  }
  if (to.byte_level && to.type == model::kind::wordpiece) {
    return at.unsupported("a model BPE behind the pre-tokenizer ByteLevel");
  }
  prepare_model(to);
  return {};
}

/// Reads the added tokens. All of their flags must be present.
result<void> read_added(const node& at, tokenizer_parts& to) {
  std::vector<added_token> added;
  if (!at.is_null()) {
    WEIR_TRY(const std::size_t count, at.size());
    for (std::size_t i = 0; i < count; ++i) {
      const node one = at.element(i);
      added_token token;
      WEIR_TRY(const node id, one.member("id"));
      WEIR_TRY(token.id, id.id());
      WEIR_TRY(token.content, one.text_of("content"));
      WEIR_TRY(token.single_word, one.flag("single_word", std::nullopt));
      WEIR_TRY(token.lstrip, one.flag("lstrip", std::nullopt));
      WEIR_TRY(token.rstrip, one.flag("rstrip", std::nullopt));
      WEIR_TRY(token.normalized, one.flag("normalized", std::nullopt));
      WEIR_TRY(token.special, one.flag("special", std::nullopt));
      added.push_back(std::move(token));
    }
  }
  return set_added(to, std::move(added));
}

/// Reads a pair [token, id] of BertProcessing.
result<std::uint32_t> read_pair(const node& at, const char* key) {
  WEIR_TRY(const node pair, at.member(key));
  WEIR_TRY(const std::size_t count, pair.size());
  if (count != 2) {
    return pair.wrong("[token, id]");
  }
  return pair.element(1).id();
}

/// Largest number of ids that are put before a text, and behind it. Known tokenizers put
/// fewer than ten there.
constexpr std::size_t max_special_ids = 4096;

/// Returns the error of a post-processor that adds more ids than the limit.
error too_many_special_ids(const node& at) {
  return at.wrong(
      fmt::format("at most {} ids of special tokens before a text and as "
                  "many behind it",
                  max_special_ids));
}

/// Appends the ids that a special token of a template stands for.
/// There are never more than `max_special_ids`.
result<void> append_special(const node& at, const node& piece,
                            std::vector<std::uint32_t>& ids) {
  WEIR_TRY(const std::string name, piece.text_of("id"));
  WEIR_TRY(const node all, at.member("special_tokens"));
  WEIR_TRY(const node special, all.member(name.c_str()));
  WEIR_TRY(const node list, special.member("ids"));
  WEIR_TRY(const std::size_t count, list.size());
  // The limit is checked first, because a small file can name a long list many times.
  if (count > max_special_ids - ids.size()) {
    return too_many_special_ids(at);
  }
  for (std::size_t i = 0; i < count; ++i) {
    WEIR_TRY(const std::uint32_t id, list.element(i).id());
    ids.push_back(id);
  }
  return {};
}

/// Reads the template for one text; the template for pairs is not used. Special tokens in
/// front of the text become `before`, the others `behind`.
result<void> read_template(const node& at, std::vector<std::uint32_t>& before,
                           std::vector<std::uint32_t>& behind) {
  WEIR_TRY(const node single, at.member("single"));
  WEIR_TRY(const std::size_t count, single.size());
  bool seen = false;
  for (std::size_t i = 0; i < count; ++i) {
    const node piece = single.element(i);
    WEIR_TRY(const node special, piece.member_or_null("SpecialToken"));
    if (special.is_null()) {
      WEIR_TRY(const node sequence, piece.member("Sequence"));
      if (seen) {
        return single.unsupported("the text once");
      }
      seen = true;
      continue;
    }
    WEIR_CHECK(append_special(at, special, seen ? behind : before));
  }
  if (!seen) {
    return single.unsupported("the text once");
  }
  return {};
}

/// Adds the ids that a post-processor puts around a text. A later post-processor of a
/// sequence wraps the result of an earlier one, so its ids lie farther out.
result<void> read_post_processor(const node& at, tokenizer_parts& to, int depth) {
  if (at.is_null()) {
    return {};
  }
  WEIR_TRY(const std::string type, at.text_of("type"));
  if (type == "ByteLevel") {
    return {};  // it changes offsets alone
  }
  if (type == "Sequence") {
    WEIR_TRY(const node list, at.member("processors"));
    WEIR_TRY(const std::size_t count, list.size());
    if (depth == max_depth) {
      return at.wrong("at most 16 nested sequences");
    }
    for (std::size_t i = 0; i < count; ++i) {
      WEIR_CHECK(read_post_processor(list.element(i), to, depth + 1));
    }
    return {};
  }
  std::vector<std::uint32_t> before;
  std::vector<std::uint32_t> behind;
  if (type == "TemplateProcessing") {
    WEIR_CHECK(read_template(at, before, behind));
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    WEIR_TRY(const std::uint32_t first, read_pair(at, "cls"));
    WEIR_TRY(const std::uint32_t last, read_pair(at, "sep"));
    before.push_back(first);
    behind.push_back(last);
  } else {
    return at.unsupported(
        "a post-processor Sequence, ByteLevel, TemplateProcessing, BertProcessing or "
        "RobertaProcessing");
  }
  // A sequence may have many post-processors.
  if (before.size() > max_special_ids - to.prefix.size() ||
      behind.size() > max_special_ids - to.suffix.size()) {
    return too_many_special_ids(at);
  }
  to.prefix.insert(to.prefix.begin(), before.begin(), before.end());
  to.suffix.insert(to.suffix.end(), behind.begin(), behind.end());
  return {};
}

/// Reads the decoder. Without one, tokens are joined with spaces between them.
result<void> read_decoder(const node& at, token_decoder& to) {
  if (at.is_null()) {
    return {};
  }
  WEIR_TRY(const std::string type, at.text_of("type"));
  if (type == "ByteLevel") {
    to.type = token_decoder::kind::byte_level;
    return {};
  }
  if (type == "WordPiece") {
    to.type = token_decoder::kind::wordpiece;
    WEIR_TRY(to.prefix, at.text_of("prefix"));
    WEIR_TRY(to.cleanup, at.flag("cleanup", std::nullopt));
    return {};
  }
  return at.unsupported("a decoder ByteLevel or WordPiece");
}

/// Checks that every id around a text has a token. The vocabulary was not complete when a
/// template was read.
result<void> check_added_ids(const tokenizer_parts& with, const node& at) {
  for (const auto* ids : {&with.prefix, &with.suffix}) {
    for (const std::uint32_t id : *ids) {
      if (with.spelling(id).data() == nullptr) {
        return at.wrong(fmt::format("ids of the vocabulary, but there is no id {}", id));
      }
    }
  }
  return {};
}

/// Reads all members in the order that the top of this file explains.
result<void> read_all(const node& root, tokenizer_parts& to) {
  WEIR_TRY(const node version, root.member_or_null("version"));
  if (!version.is_null() && version.value() != "1.0") {
    return version.unsupported("version \"1.0\"");
  }
  WEIR_TRY(const node normalizer_node, root.member_or_null("normalizer"));
  WEIR_CHECK(read_normalizer(normalizer_node, to.normalizer, 0));
  WEIR_TRY(const node splits, root.member_or_null("pre_tokenizer"));
  WEIR_CHECK(read_pre_tokenizer(splits, to, 0));
  WEIR_TRY(const node model_node, root.member("model"));
  WEIR_CHECK(read_model(model_node, to.model));
  WEIR_TRY(const node added, root.member_or_null("added_tokens"));
  WEIR_CHECK(read_added(added, to));
  WEIR_TRY(const node post, root.member_or_null("post_processor"));
  WEIR_CHECK(read_post_processor(post, to, 0));
  WEIR_CHECK(check_added_ids(to, post));
  WEIR_TRY(const node decoder_node, root.member_or_null("decoder"));
  return read_decoder(decoder_node, to.decoder);
}

}  // namespace

result<tokenizer> tokenizer::from_json(bytes_view bytes, const std::string& name) {
  const std::string_view text = as_text(bytes);
  if (const std::size_t depth = json_depth(text); depth > max_json_depth) {
    return error(
               errc::corrupt,
               fmt::format("cannot read a tokenizer: expected at most {} nested values, "
                           "found {}",
                           max_json_depth, depth))
        .located(name);
  }
  json value;
  try {
    value = json::parse(text);
  } catch (const json::exception& e) {
    // The parser puts "[json.exception...] " before its reason.
    std::string_view reason = e.what();
    reason = reason.substr(std::min(reason.find("] ") + 2, reason.size()));
    return error(errc::corrupt,
                 fmt::format("cannot read a tokenizer: expected JSON, found {}", reason))
        .located(name);
  }
  auto parts = std::make_shared<tokenizer_parts>();
  parts->digest = xxh3_64(bytes);
  if (auto done = read_all(node(value, "tokenizer"), *parts); !done) {
    return std::move(done.error()).located(name);
  }
  return tokenizer(std::move(parts));
}

}  // namespace weir::formats
