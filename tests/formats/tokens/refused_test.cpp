// SPDX-License-Identifier: Apache-2.0
/// @file
/// Descriptions that are refused: by name where a component is not known, and with the
/// path of the member where a value is wrong.
#include "formats/tokens/made.hpp"

namespace weir::formats {
namespace {

using namespace made;

/// A change of a sound description, and the error that it must give.
struct refused {
  const char* pointer;  ///< JSON pointer of the member that is replaced
  json value;
  errc code;
  const char* message;  ///< part of the message
};

void expect_refused(const json& sound, const std::vector<refused>& cases) {
  ASSERT_TRUE(tokenizer::from_json(as_view(sound.dump())));
  for (const refused& one : cases) {
    json changed = sound;
    changed[json::json_pointer(one.pointer)] = one.value;
    const auto made = tokenizer::from_json(as_view(changed.dump()), "made.json");
    ASSERT_FALSE(made) << one.pointer << " " << one.value;
    EXPECT_EQ(made.error().code(), one.code) << made.error().message();
    EXPECT_NE(made.error().message().find(one.message), std::string::npos)
        << made.error().message();
    EXPECT_NE(made.error().message().find("made.json"), std::string::npos);
  }
}

TEST(TokenizerRefuses, WrongValuesOfByteLevelBpe) {
  const auto bad = errc::corrupt;
  expect_refused(
      byte_level(some_merges()),
      {{"/version", "2.0", errc::unsupported, "tokenizer.version"},
       {"/model", nullptr, bad, "tokenizer.model"},
       {"/model", json::array(), bad, "expected an object"},
       {"/model/type", 7, bad, "tokenizer.model.type"},
       {"/model/vocab", json::array(), bad, "tokenizer.model.vocab"},
       {"/model/vocab/x", -1, bad, "tokenizer.model.vocab[\"x\"]"},
       {"/model/vocab/x", 1.5, bad, "an id"},
       {"/model/vocab/x", 1U << 24, errc::out_of_range, "below 16777216"},
       {"/model/vocab/x", 5, bad, "one token for each id"},
       {"/model/merges", "a b", bad, "tokenizer.model.merges"},
       {"/model/merges/0", "a", bad, "tokenizer.model.merges[0]"},
       {"/model/merges/0", json{"a"}, bad, "two tokens"},
       {"/model/merges/0", json{"a", "nobody"}, bad, "merge 0"},
       {"/model/merges/1", json{"q", "q"}, bad, "found \"qq\""},
       {"/model/unk_token", "nobody", bad, "tokenizer.model.unk_token"},
       {"/model/fuse_unk", 1, bad, "true or false"},
       {"/added_tokens", 3, bad, "tokenizer.added_tokens"},
       {"/added_tokens/0/id", "x", bad, "tokenizer.added_tokens[0].id"},
       {"/added_tokens/0/id", 17, errc::unsupported, "<|end|>"},
       {"/added_tokens/0/content", nullptr, bad, "tokenizer.added_tokens[0].content"},
       {"/added_tokens/0/content", std::string(70'000, 'x'), errc::out_of_range, "65536"},
       {"/added_tokens/0/lstrip", nullptr, bad, "lstrip"},
       {"/added_tokens/0/special", "yes", bad, "special"},
       {"/pre_tokenizer/add_prefix_space", nullptr, bad, "add_prefix_space"},
       {"/pre_tokenizer/use_regex", 4, bad, "use_regex"},
       {"/decoder", "x", bad, "tokenizer.decoder"}});
}

TEST(TokenizerRefuses, WrongValuesOfWordPiece) {
  const auto bad = errc::corrupt;
  expect_refused(
      wordpiece(),
      {{"/model/unk_token", nullptr, bad, "tokenizer.model.unk_token"},
       {"/model/unk_token", "nobody", bad, "a token of the vocabulary"},
       {"/model/max_input_chars_per_word", -1, bad, "max_input_chars_per_word"},
       {"/model/continuing_subword_prefix", 2, bad, "continuing_subword_prefix"},
       {"/normalizer/clean_text", "x", bad, "tokenizer.normalizer.clean_text"},
       {"/normalizer/strip_accents", 1, bad, "strip_accents"},
       {"/post_processor/single", 1, bad, "tokenizer.post_processor.single"},
       {"/post_processor/single/1", json::object(), bad, "Sequence"},
       {"/post_processor/single/0",
        {{"Sequence", {{"id", "A"}}}},
        errc::unsupported,
        "the text once"},
       {"/post_processor/special_tokens/[CLS]/ids/0", 999, bad, "no id 999"},
       {"/post_processor/special_tokens", json::object(), bad, "[CLS]"},
       {"/decoder/prefix", nullptr, bad, "tokenizer.decoder.prefix"}});
}

TEST(TokenizerRefuses, ComponentsThatItDoesNotKnow) {
  const auto bad = errc::unsupported;
  const json text_pattern = {{"Regex", "x"}};
  expect_refused(
      byte_level({}),
      {{"/normalizer", {{"type", "Precompiled"}}, bad, "Precompiled"},
       {"/normalizer",
        {{"type", "Replace"}, {"pattern", text_pattern}, {"content", ""}},
        bad,
        "Regex"},
       {"/pre_tokenizer", {{"type", "Metaspace"}}, bad, "Metaspace"},
       {"/pre_tokenizer",
        {{"type", "Sequence"},
         {"pretokenizers",
          {{{"type", "ByteLevel"}, {"add_prefix_space", false}},
           {{"type", "WhitespaceSplit"}}}}},
        bad,
        "no pre-tokenizer behind ByteLevel"},
       {"/post_processor", {{"type", "Unknown"}}, bad, "Unknown"},
       {"/decoder", {{"type", "Metaspace"}}, bad, "Metaspace"},
       {"/model/type", "Unigram", bad, "Unigram"},
       {"/model/dropout", 0.5, bad, "dropout"},
       {"/model/end_of_word_suffix", "</w>", bad, "end_of_word_suffix"},
       {"/model/continuing_subword_prefix", "##", bad, "continuing_subword_prefix"}});
}

TEST(TokenizerRefuses, PatternsThatMeanSomethingElseInOniguruma) {
  for (const char* pattern :
       {"\\h+", "\\w+", "\\bx", "[a[bc]]", "[a-z&&[^b]]", "(?m:.)", "(?<n>x)", "\\p{Han}",
        "x{2}+", "[\\S]", "x*", "(", "\\p{L", "[\\P{L}]"}) {
    json description = byte_level({});
    description["pre_tokenizer"] = {{"type", "Split"},
                                    {"pattern", {{"Regex", pattern}}},
                                    {"behavior", "Isolated"},
                                    {"invert", false}};
    const auto made = tokenizer::from_json(as_view(description.dump()));
    ASSERT_FALSE(made) << pattern;
    EXPECT_EQ(made.error().code(), errc::unsupported) << made.error().message();
  }
}

TEST(TokenizerRefuses, TemplatesThatNameTooManyIds) {
  json description = wordpiece();
  json& processor = description["post_processor"];
  processor["special_tokens"]["[CLS]"]["ids"] = json(std::vector<int>(4096, 2));
  EXPECT_TRUE(tokenizer::from_json(as_view(description.dump())));
  // One more piece of the template names the same 4096 ids again.
  json again = description;
  again["post_processor"]["single"].insert(again["post_processor"]["single"].begin(),
                                           processor["single"][0]);
  // A second template in a sequence adds to those of the first.
  json twice = description;
  twice["post_processor"] = {{"type", "Sequence"},
                             {"processors", json::array({processor, processor})}};
  for (const json& one : {again, twice}) {
    const auto made = tokenizer::from_json(as_view(one.dump()), "made.json");
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code(), errc::corrupt);
    EXPECT_NE(made.error().message().find("at most 4096 ids of special tokens"),
              std::string::npos)
        << made.error().message();
  }
}

TEST(TokenizerRefuses, AnIdFarBeyondTheNumberOfTokens) {
  // The table of tokens has an entry for each id up to the largest.
  expect_refused(byte_level(some_merges()),
                 {{"/model/vocab/x", (1U << 24) - 1, errc::out_of_range,
                   "expected an id below 1048576"}});
}

TEST(TokenizerRefuses, BytesThatAreNotJson) {
  for (const char* text : {"", "{", "[1,]", "\xFF", "{\"model\":}", "nul"}) {
    const auto made = tokenizer::from_json(as_view(text), "made.json");
    ASSERT_FALSE(made) << text;
    EXPECT_EQ(made.error().code(), errc::corrupt);
  }
  const std::string whole = byte_level(some_merges()).dump();
  for (std::size_t size = 0; size < whole.size(); size += 37) {
    EXPECT_FALSE(tokenizer::from_json(as_view(whole.substr(0, size)))) << size;
  }
}

TEST(TokenizerRefuses, SequencesThatNestTooDeep) {
  json inner = {{"type", "NFC"}};
  for (int i = 0; i < 20; ++i) {
    inner = {{"type", "Sequence"}, {"normalizers", json::array({inner})}};
  }
  json description = byte_level({});
  description["normalizer"] = inner;
  const auto made = tokenizer::from_json(as_view(description.dump()));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), errc::corrupt);
}

}  // namespace
}  // namespace weir::formats
