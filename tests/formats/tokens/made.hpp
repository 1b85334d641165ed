// SPDX-License-Identifier: Apache-2.0
/// @file
/// Small tokenizers that the tests write themselves.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "weir/formats/tokens.hpp"

namespace weir::formats::made {

using json = nlohmann::json;
using ids_vector = std::vector<std::uint32_t>;

/// Returns the UTF-8 of the character that stands for a byte in byte-level vocabularies:
/// printable bytes of Latin-1 stand for themselves, the others for U+0100 and behind.
inline std::string spelled(unsigned byte) {
  const auto own = [](unsigned b) {
    return (b > 0x20 && b < 0x7F) || (b > 0xA0 && b < 0x100 && b != 0xAD);
  };
  unsigned code = byte;
  if (!own(byte)) {
    code = 0x100;
    for (unsigned b = 0; b < byte; ++b) {
      code += own(b) ? 0 : 1;
    }
  }
  if (code < 0x80) {
    return std::string(1, static_cast<char>(code));
  }
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

/// Returns a byte-level BPE tokenizer: ids 0 to 255 are the bytes, then one id for each
/// merge, then <|end|>.
inline json byte_level(const std::vector<std::pair<std::string, std::string>>& merges) {
  json vocabulary = json::object();
  for (unsigned byte = 0; byte < 256; ++byte) {
    vocabulary[spelled(byte)] = byte;
  }
  json list = json::array();
  for (const auto& [left, right] : merges) {
    list.push_back({left, right});
    if (!vocabulary.contains(left + right)) {
      vocabulary[left + right] = vocabulary.size();
    }
  }
  const std::size_t end = vocabulary.size();
  return {{"version", "1.0"},
          {"added_tokens",
           {{{"id", end},
             {"content", "<|end|>"},
             {"single_word", false},
             {"lstrip", false},
             {"rstrip", false},
             {"normalized", false},
             {"special", true}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", list}}}};
}

/// Returns merges of words of English text, spaces included.
inline std::vector<std::pair<std::string, std::string>> some_merges() {
  const std::string space = spelled(' ');
  return {{"t", "h"},     {"i", "n"},   {"th", "e"},
          {space, "the"}, {"a", "n"},   {"an", "d"},
          {space, "and"}, {"in", "g"},  {"e", "r"},
          {space, space}, {"l", "l"},   {"'", "ll"},
          {"1", "2"},     {"12", "3"},  {spelled('\n'), spelled('\n')},
          {"a", "a"},     {"aa", "aa"}, {"aaaa", "a"}};
}

/// Returns a WordPiece tokenizer like BERT's.
inline json wordpiece() {
  json vocabulary = json::object();
  for (const char* token :
       {"[PAD]", "[UNK]",        "[CLS]",      "[SEP]", "un",  "##aff", "##able", "##a",
        "##ff",  "the",          "a",          "##b",   "##c", "e",     "##e",    ",",
        ".",     "\xE4\xB8\xAD", "##\xC3\xA9", "unaff"}) {
    vocabulary[token] = vocabulary.size();
  }
  json added = json::array();
  for (const char* token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]"}) {
    added.push_back({{"id", vocabulary[token]},
                     {"content", token},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const auto special = [&](const char* token) {
    return json{{"id", token}, {"ids", {vocabulary[token]}}, {"tokens", {token}}};
  };
  return {
      {"version", "1.0"},
      {"added_tokens", added},
      {"normalizer",
       {{"type", "BertNormalizer"},
        {"clean_text", true},
        {"handle_chinese_chars", true},
        {"strip_accents", nullptr},
        {"lowercase", true}}},
      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single",
         {{{"SpecialToken", {{"id", "[CLS]"}, {"type_id", 0}}}},
          {{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
          {{"SpecialToken", {{"id", "[SEP]"}, {"type_id", 0}}}}}},
        {"pair", json::array()},
        {"special_tokens", {{"[CLS]", special("[CLS]")}, {"[SEP]", special("[SEP]")}}}}},
      {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
      {"model",
       {{"type", "WordPiece"},
        {"unk_token", "[UNK]"},
        {"continuing_subword_prefix", "##"},
        {"max_input_chars_per_word", 20},
        {"vocab", vocabulary}}}};
}

/// Returns an added token for "added_tokens".
inline json added(std::size_t id, const std::string& content,
                  const std::vector<std::string>& flags) {
  json out = {{"id", id}, {"content", content}};
  for (const char* flag : {"single_word", "lstrip", "rstrip", "normalized", "special"}) {
    out[flag] = std::find(flags.begin(), flags.end(), flag) != flags.end();
  }
  return out;
}

/// Reads a description, which must be accepted.
inline tokenizer read(const json& description) {
  auto made = tokenizer::from_json(as_view(description.dump()));
  EXPECT_TRUE(made) << (made ? "" : made.error().message());
  return std::move(*made);
}

/// Returns the ids of a text, which must be accepted.
inline ids_vector ids_of(const tokenizer& with, std::string_view text,
                         bool special = true) {
  ids_vector ids;
  const auto done = with.encode(text, ids, {.add_special_tokens = special});
  EXPECT_TRUE(done) << (done ? "" : done.error().message());
  return ids;
}

/// Returns the tokens of a text as the description spells them, with bars between them.
inline std::string tokens_of(const tokenizer& with, std::string_view text) {
  std::string out;
  for (const std::uint32_t id : ids_of(with, text)) {
    out += (out.empty() ? "" : "|") + std::string(with.token(id).value_or("?"));
  }
  return out;
}

/// Returns a text of words, spaces, lines, marks, ideographs and added tokens.
inline std::string random_text(std::mt19937_64& random, std::size_t parts) {
  static const std::vector<std::string> words = {"the",
                                                 " the",
                                                 " and",
                                                 "ing",
                                                 " ",
                                                 "  ",
                                                 "\n",
                                                 "\n\n",
                                                 "\t",
                                                 "123",
                                                 "1",
                                                 "'ll",
                                                 "I'm",
                                                 ",",
                                                 ".",
                                                 "a",
                                                 "aaaaa",
                                                 "un",
                                                 "able",
                                                 "\xC3\xA9",
                                                 "e\xCC\x81",
                                                 "\xE4\xB8\xAD",
                                                 "\xF0\x9F\x98\x80",
                                                 "\xC2\xA0",
                                                 "\xE3\x80\x80",
                                                 "<|end|>",
                                                 "<|en",
                                                 "<|",
                                                 "word",
                                                 "<mask>",
                                                 "[SEP]",
                                                 "[SE",
                                                 "\xCC\x81",
                                                 "\xEF\xAC\x81",
                                                 "X",
                                                 "\x01",
                                                 "<|end|> ",
                                                 "  <mask>"};
  std::string out;
  for (std::size_t i = 0; i < parts; ++i) {
    out += words[random() % words.size()];
  }
  return out;
}

}  // namespace weir::formats::made
