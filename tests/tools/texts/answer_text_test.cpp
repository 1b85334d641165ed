// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the text of an answer while its tokens are drawn.
#include "texts/answer_text.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/case_count.hpp"
#include "weir/base/philox.hpp"
#include "weir/base/utf8.hpp"

namespace weir::tools {
namespace {

std::string utf8_of(std::uint32_t point) {
  std::string out;
  if (point < 0x80) {
    return {static_cast<char>(point)};
  }
  const int more = point < 0x800 ? 1 : (point < 0x10000 ? 2 : 3);
  const std::uint32_t head = more == 1 ? 0xC0 : (more == 2 ? 0xE0 : 0xF0);
  out += static_cast<char>(head | point >> (6 * more));
  for (int i = more - 1; i >= 0; --i) {
    out += static_cast<char>(0x80 | (point >> (6 * i) & 0x3F));
  }
  return out;
}

/// Returns a tokenizer whose id b is the byte b.
formats::tokenizer byte_tokenizer() {
  std::string vocabulary;
  std::uint32_t next = 256;
  for (std::uint32_t b = 0; b < 256; ++b) {
    // The names that byte-level models give to bytes.
    const bool visible =
        (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
    std::string name = utf8_of(visible ? b : next++);
    if (name == "\"" || name == "\\") {
      name.insert(name.begin(), '\\');
    }
    vocabulary += fmt::format("{}\"{}\": {}", b == 0 ? "" : ", ", name, b);
  }
  const std::string level =
      R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, )"
      R"("use_regex": true})";
  const std::string json = fmt::format(
      R"({{"version": "1.0", "added_tokens": [], "normalizer": null, )"
      R"("post_processor": null, "pre_tokenizer": {0}, "decoder": {0}, "model": )"
      R"({{"type": "BPE", "vocab": {{{1}}}, "merges": []}}}})",
      level, vocabulary);
  return or_throw(formats::tokenizer::from_json(as_view(json)));
}

formats::tokenizer word_tokenizer() {
  const std::string json =
      R"({"version": "1.0", "added_tokens": [], "normalizer": null, )"
      R"("post_processor": null, "pre_tokenizer": {"type": "BertPreTokenizer"}, )"
      R"("decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true}, "model": )"
      R"({"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", )"
      R"("max_input_chars_per_word": 100, "vocab": {"[UNK]": 0, "the": 1, "##s": 2, )"
      R"("fox": 3, ".": 4, "'": 5, "t": 6}}})";
  return or_throw(formats::tokenizer::from_json(as_view(json)));
}

/// Returns all pieces together, and expects that few tokens are decoded again.
std::string pieces_of(const formats::tokenizer& tokens,
                      const std::vector<std::uint32_t>& ids) {
  answer_text text(tokens);
  std::string all;
  for (const std::uint32_t id : ids) {
    const std::string piece = or_throw(text.add(id));
    EXPECT_TRUE(is_utf8(piece));
    all += piece;
    EXPECT_LE(text.kept_tokens(), 2 * (answer_text::max_open + 1));
  }
  return all + or_throw(text.end());
}

TEST(AnswerText, PiecesAreTheWholeTextForEveryLengthOfCharacters) {
  const formats::tokenizer tokens = byte_tokenizer();
  for (std::uint64_t seed = 0; seed < test::case_count("WEIR_ANSWERS", 200); ++seed) {
    const philox random(seed, 7);
    std::string text;
    for (std::uint64_t i = 0; i < 1 + random.below(1000, 60); ++i) {
      constexpr std::uint32_t ends[] = {0x80, 0x800, 0xD800, 0x110000};
      const std::uint32_t end = ends[random.below(2 * i, 4)];
      auto point = static_cast<std::uint32_t>(random.below(2 * i + 1, end));
      // U+FFFD itself is written as soon as it can no longer be the end of a broken
      // character; surrogates are no characters.
      point = point >= 0xD800 && point < 0xE000 ? 'a' : point;
      text += utf8_of(point);
    }
    std::vector<std::uint32_t> ids;
    for (const char c : text) {
      ids.push_back(static_cast<unsigned char>(c));
    }
    EXPECT_EQ(pieces_of(tokens, ids), text) << "seed " << seed;
  }
}

TEST(AnswerText, BytesThatAreNoTextAreTheWholeTextToo) {
  const formats::tokenizer tokens = byte_tokenizer();
  for (std::uint64_t seed = 0; seed < test::case_count("WEIR_ANSWERS", 200); ++seed) {
    const philox random(seed, 8);
    std::vector<std::uint32_t> ids;
    for (std::uint64_t i = 0; i < 80; ++i) {
      // Bytes of long characters, and now and then a letter, which ends a broken one.
      ids.push_back(static_cast<std::uint32_t>(
          random.below(2 * i, 8) == 0 ? 'a' : random.below(2 * i + 1, 128) + 128));
    }
    std::size_t open = 0;
    std::size_t longest = 0;
    for (const std::uint32_t id : ids) {
      open = id == 'a' ? 0 : open + 1;
      longest = std::max(longest, open);
    }
    const std::string found = pieces_of(tokens, ids);
    EXPECT_TRUE(is_utf8(found));
    if (longest < answer_text::max_open) {
      EXPECT_EQ(found, or_throw(tokens.decode(ids))) << "seed " << seed;
    }
  }
}

TEST(AnswerText, BrokenCharactersWaitNoLongerThanTheLimit) {
  const formats::tokenizer tokens = byte_tokenizer();
  answer_text text(tokens);
  std::string all;
  for (int i = 0; i < 1000; ++i) {
    all += or_throw(text.add(0xFF));
    ASSERT_LE(text.kept_tokens(), 2 * (answer_text::max_open + 1));
  }
  EXPECT_GE(all.size(), 3U * (1000 - answer_text::max_open - 1));
}

TEST(AnswerText, TokensThatContinueAWordAreJoinedToIt) {
  const formats::tokenizer tokens = word_tokenizer();
  for (const std::vector<std::uint32_t>& ids :
       {std::vector<std::uint32_t>{1, 2, 3, 2}, {3}, {2, 2, 1, 3, 3, 2, 1}}) {
    EXPECT_EQ(pieces_of(tokens, ids), or_throw(tokens.decode(ids)));
  }
}

}  // namespace
}  // namespace weir::tools
