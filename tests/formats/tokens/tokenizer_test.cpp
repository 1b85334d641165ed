// SPDX-License-Identifier: Apache-2.0
/// @file
/// Ids and texts of small tokenizers; Hugging Face tokenizers is asked by
/// tests/interop/tokens_hf.py.
#include <algorithm>
#include <thread>

#include "formats/tokens/made.hpp"

namespace weir::formats {
namespace {

using namespace made;

/// Merges the pair of the smallest rank, leftmost first, again and again.
ids_vector merged_slowly(const json& description, std::string_view piece) {
  const json& vocabulary = description["model"]["vocab"];
  std::vector<std::string> parts;
  for (const char c : piece) {
    parts.push_back(spelled(static_cast<unsigned char>(c)));
  }
  for (;;) {
    std::size_t best_rank = description["model"]["merges"].size();
    std::size_t best = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      for (std::size_t rank = 0; rank < best_rank; ++rank) {
        const json& pair = description["model"]["merges"][rank];
        if (pair[0] == parts[i] && pair[1] == parts[i + 1]) {
          best_rank = rank;
          best = i;
        }
      }
    }
    if (best_rank == description["model"]["merges"].size()) {
      break;
    }
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  ids_vector ids;
  for (const std::string& part : parts) {
    ids.push_back(vocabulary[part].get<std::uint32_t>());
  }
  return ids;
}

TEST(Tokenizer, PairsMergeByRankAndThenFromTheLeft) {
  const json description = byte_level(some_merges());
  const auto with = read(description);
  EXPECT_EQ(tokens_of(with, "the and"), "the|" + spelled(' ') + "and");
  EXPECT_EQ(tokens_of(with, "aaaaaaa"), "aaaa|aa|a");
  EXPECT_EQ(tokens_of(with, "then thing"), "the|n|" + spelled(' ') + "|th|ing");
}

TEST(Tokenizer, ShortAndLongPiecesMergeAlike) {
  const json description = byte_level(some_merges());
  const auto with = read(description);
  std::mt19937_64 random(3);
  for (const std::size_t size : {2U, 30U, 31U, 63U, 64U, 65U, 66U, 200U, 400U}) {
    for (int repeat = 0; repeat < 3; ++repeat) {
      std::string piece;
      for (std::size_t i = 0; i < size; ++i) {
        piece += "athening"[random() % 8];
      }
      EXPECT_EQ(ids_of(with, piece), merged_slowly(description, piece)) << piece;
      // The second time, the cache answers.
      EXPECT_EQ(ids_of(with, piece), merged_slowly(description, piece)) << piece;
    }
  }
}

TEST(Tokenizer, AMillionBytesWithoutASplitMergeInTime) {
  const auto with = read(byte_level(some_merges()));
  const ids_vector ids = ids_of(with, std::string(1'000'000, 'a'));
  EXPECT_EQ(ids.size(), 200'000U * 5 / 4);
}

TEST(Tokenizer, EveryByteHasATokenAndComesBack) {
  const auto with = read(byte_level(some_merges()));
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(with.token(byte), std::optional<std::string_view>(spelled(byte)));
    EXPECT_EQ(with.id(spelled(byte)), std::optional(byte));
  }
  std::mt19937_64 random(5);
  for (int i = 0; i < 200; ++i) {
    const std::string text = random_text(random, 30);
    const auto back = with.decode(ids_of(with, text), {.skip_special_tokens = false});
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, text);
  }
}

TEST(Tokenizer, BytesThatAreNotUtf8DecodeToOneReplacementForEachMaximalPart) {
  const auto with = read(byte_level({}));
  const auto text = [&](const ids_vector& ids) { return *with.decode(ids); };
  EXPECT_EQ(text({'a', 0xE4, 0xB8, 'b'}),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(text({0xE4, 0xB8}), "\xEF\xBF\xBD");
  EXPECT_EQ(text({0xC0, 0xAF}), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(text({0xED, 0xA0, 0x80}), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(text({0xF0, 0x9F, 0x98, 'x'}),
            "\xEF\xBF\xBD"
            "x");
}

TEST(Tokenizer, WordPieceTakesTheLongestTokenAndGivesUpOnAWholeWord) {
  const auto with = read(wordpiece());
  EXPECT_EQ(tokens_of(with, "unaffable"), "[CLS]|unaff|##able|[SEP]");
  EXPECT_EQ(tokens_of(with, "unaffbx the"), "[CLS]|[UNK]|the|[SEP]");
  EXPECT_EQ(tokens_of(with, "abcbcbcbcbcbcbcbcbcb"),
            "[CLS]|a|##b|##c|##b|##c|##b|##c|##b|"
            "##c|##b|##c|##b|##c|##b|##c|##b|##c|"
            "##b|##c|##b|[SEP]");
  EXPECT_EQ(tokens_of(with, "abcbcbcbcbcbcbcbcbcbc"), "[CLS]|[UNK]|[SEP]");
}

TEST(Tokenizer, BertCleansLowersStripsAccentsAndSplitsIdeographs) {
  const auto with = read(wordpiece());
  EXPECT_EQ(tokens_of(with, "THE\x01, \xC3\x89."), "[CLS]|the|,|e|.|[SEP]");
  EXPECT_EQ(tokens_of(with,
                      "a\xE4\xB8\xAD"
                      "a"),
            "[CLS]|a|\xE4\xB8\xAD|a|[SEP]");
  EXPECT_EQ(tokens_of(with, "e\xCC\x81"), "[CLS]|e|[SEP]");
  json cased = wordpiece();
  cased["normalizer"]["lowercase"] = false;
  EXPECT_EQ(tokens_of(read(cased), "the THE"), "[CLS]|the|[UNK]|[SEP]");
}

TEST(Tokenizer, WordPieceDecodesWithoutSpacesBeforePunctuation) {
  const auto with = read(wordpiece());
  const ids_vector ids = ids_of(with, "The unaffable, a.");
  EXPECT_EQ(*with.decode(ids), "the unaffable, a.");
  EXPECT_EQ(*with.decode(ids, {.skip_special_tokens = false}),
            "[CLS] the unaffable, a. [SEP]");
}

TEST(Tokenizer, TheLongestOfTheLeftmostAddedTokensMatches) {
  json description = byte_level({});
  description["added_tokens"].push_back(added(257, "<|end", {}));
  description["added_tokens"].push_back(added(258, "end|>x", {}));
  const auto with = read(description);
  EXPECT_EQ(ids_of(with, "<|end|>x"), (ids_vector{256, 'x'}));
  EXPECT_EQ(ids_of(with, "<|end|x"), (ids_vector{257, '|', 'x'}));
  EXPECT_EQ(ids_of(with, "<end|>x"), (ids_vector{'<', 258}));
}

TEST(Tokenizer, AddedTokensTakeWhiteSpaceAlongAndNeedWordsToEnd) {
  json description = byte_level({});
  description["added_tokens"].push_back(added(257, "<l>", {"lstrip"}));
  description["added_tokens"].push_back(added(258, "<r>", {"rstrip"}));
  description["added_tokens"].push_back(added(259, "word", {"single_word"}));
  const auto with = read(description);
  EXPECT_EQ(ids_of(with, "a \xE3\x80\x80<l> b"), (ids_vector{'a', 257, ' ', 'b'}));
  EXPECT_EQ(ids_of(with, "a <r> \n b"), (ids_vector{'a', ' ', 258, 'b'}));
  EXPECT_EQ(ids_of(with, "word"), ids_vector{259});
  EXPECT_EQ(ids_of(with, "(word)"), (ids_vector{'(', 259, ')'}));
  EXPECT_EQ(ids_of(with, "words").size(), 5U);
  EXPECT_EQ(ids_of(with, "swords").size(), 6U);
}

TEST(Tokenizer, NormalizedAddedTokensAreFoundInTheNormalForm) {
  json description = byte_level({});
  description["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers", {{{"type", "NFC"}}, {{"type", "Lowercase"}}}}};
  description["added_tokens"].push_back(added(257, "Caf\xC3\xA9", {"normalized"}));
  description["added_tokens"].push_back(added(258, "RAW", {}));
  const auto with = read(description);
  EXPECT_EQ(ids_of(with, "CAFe\xCC\x81"), ids_vector{257});
  EXPECT_EQ(ids_of(with, "RAWraw"), (ids_vector{258, 'r', 'a', 'w'}));
}

TEST(Tokenizer, NormalFormsKeepTheCodeBeforeTheFinalHangulLetters) {
  json description = byte_level({});
  description["normalizer"] = {{"type", "NFC"}};
  // U+1100 and U+1161 become the syllable U+AC00, and U+11A7 stays behind it.
  EXPECT_EQ(ids_of(read(description), "\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA7"),
            (ids_vector{0xEA, 0xB0, 0x80, 0xE1, 0x86, 0xA7}));
}

TEST(Tokenizer, DigitsBeforeByteLevelSplitNumbersOfEveryScript) {
  json description = byte_level(some_merges());
  EXPECT_EQ(ids_of(read(description), "123").size(), 1U);
  description["pre_tokenizer"] = {{"type", "Sequence"},
                                  {"pretokenizers",
                                   {{{"type", "Digits"}, {"individual_digits", true}},
                                    description["pre_tokenizer"]}}};
  const auto with = read(description);
  EXPECT_EQ(ids_of(with, "123").size(), 3U);
  EXPECT_EQ(ids_of(with, " \xC2\xB2"), (ids_vector{' ', 0xC2, 0xB2}));
}

TEST(Tokenizer, GgufKeysGiveTheIdsOfTheJson) {
  json description = byte_level(some_merges());
  description["pre_tokenizer"] = {{"type", "Sequence"},
                                  {"pretokenizers",
                                   {{{"type", "Digits"}, {"individual_digits", true}},
                                    description["pre_tokenizer"]}}};
  const auto with = read(description);
  gguf_tokenizer keys;
  keys.model = "gpt2";
  keys.pre = "smollm";
  for (std::uint32_t id = 0; id < with.vocabulary_size(); ++id) {
    keys.tokens.emplace_back(*with.token(id));
    keys.token_type.push_back(id + 1 == with.vocabulary_size() ? 3 : 1);
  }
  for (const auto& [left, right] : some_merges()) {
    keys.merges.push_back(left + " " + right);
  }
  const auto same = tokenizer::from_gguf(keys);
  ASSERT_TRUE(same) << same.error().message();
  std::mt19937_64 random(9);
  for (int i = 0; i < 200; ++i) {
    const std::string text = random_text(random, 20);
    EXPECT_EQ(ids_of(*same, text), ids_of(with, text)) << text;
  }
  keys.pre = "nobody";
  EXPECT_EQ(tokenizer::from_gguf(keys).error().code(), errc::unsupported);
  keys.pre = "gpt-2";
  keys.merges.push_back("q zz");
  EXPECT_EQ(tokenizer::from_gguf(keys).error().code(), errc::corrupt);
  keys.merges.pop_back();
  keys.token_type.pop_back();
  EXPECT_EQ(tokenizer::from_gguf(keys).error().code(), errc::corrupt);
}

TEST(Tokenizer, GgufMarksTheBeginningsOfWordsOfBert) {
  gguf_tokenizer keys;
  keys.model = "bert";
  keys.tokens = {"[UNK]", "[CLS]", "[SEP]", "\xE2\x96\x81un", "able"};
  keys.token_type = {2, 3, 3, 1, 1};
  keys.unknown = 0;
  keys.bos = 1;
  keys.eos = 2;
  const auto with = tokenizer::from_gguf(keys);
  ASSERT_TRUE(with) << with.error().message();
  EXPECT_EQ(tokens_of(*with, "Unable able"), "[CLS]|un|##able|[UNK]|[SEP]");
  keys.unknown.reset();
  EXPECT_EQ(tokenizer::from_gguf(keys).error().code(), errc::corrupt);
}

TEST(Tokenizer, AnUnknownIdAndTextThatIsNotUtf8AreRefusedWithTheirPlace) {
  const auto with = read(byte_level({}));
  const auto text = with.decode(ids_vector{97, 1000});
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code(), errc::out_of_range);
  EXPECT_NE(text.error().message().find("id 1000 at place 1"), std::string::npos);
  ids_vector ids;
  const auto done = with.encode("ab\xFF", ids);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), errc::corrupt);
  EXPECT_NE(done.error().message().find("0xff at byte 2"), std::string::npos);
  EXPECT_TRUE(ids.empty());
}

TEST(Tokenizer, ThreadsShareATokenizer) {
  const auto with = read(byte_level(some_merges()));
  std::mt19937_64 random(13);
  const std::string text = random_text(random, 2000);
  const ids_vector expected = ids_of(with, text);
  std::vector<ids_vector> found(4);
  std::vector<std::thread> threads;
  for (auto& ids : found) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        ids.clear();
        (void)with.encode(text, ids);
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  for (const auto& ids : found) {
    EXPECT_EQ(ids, expected);
  }
}

}  // namespace
}  // namespace weir::formats
