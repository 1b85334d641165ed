// SPDX-License-Identifier: Apache-2.0
/// @file
/// Streams: the ids do not depend on where buffers end, and a cursor at any id continues.
#include <algorithm>

#include "formats/tokens/made.hpp"
#include "support/case_count.hpp"

namespace weir::formats {
namespace {

using namespace made;

/// Returns tokenizers that split in every way: with digits, prefix spaces, normal forms,
/// added tokens of every kind, and all behaviors of a pattern.
std::vector<tokenizer> many_tokenizers() {
  std::vector<json> all = {byte_level(some_merges()), wordpiece()};
  json with_added = byte_level(some_merges());
  const std::size_t next = with_added["added_tokens"][0]["id"].get<std::size_t>() + 1;
  with_added["added_tokens"].push_back(added(next, "<mask>", {"lstrip", "rstrip"}));
  with_added["added_tokens"].push_back(added(next + 1, "word", {"single_word"}));
  with_added["added_tokens"].push_back(added(next + 2,
                                             "\xC3\xA9"
                                             "a",
                                             {"normalized"}));
  with_added["added_tokens"].push_back(
      added(next + 3, "able", {"normalized", "single_word"}));
  all.push_back(with_added);
  for (const char* form : {"NFC", "NFD", "NFKC", "NFKD"}) {
    with_added["normalizer"] = {{"type", form}};
    all.push_back(with_added);
  }
  json prefix = byte_level(some_merges());
  prefix["pre_tokenizer"]["add_prefix_space"] = true;
  all.push_back(prefix);
  json words = wordpiece();
  words["pre_tokenizer"] = {{"type", "Whitespace"}};
  all.push_back(words);
  const json byte_split = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  for (const char* behavior :
       {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"}) {
    for (const bool invert : {false, true}) {
      json splits = byte_level(some_merges());
      splits["pre_tokenizer"] = {
          {"type", "Sequence"},
          {"pretokenizers",
           {{{"type", "Split"},
             {"pattern", {{"Regex", "[ae]\\p{L}{1,2}| ?[^\\s\\p{L}\\p{N}]+|1+(?=2)"}}},
             {"behavior", behavior},
             {"invert", invert}},
            {{"type", "Split"},
             {"pattern", {{"String", "aa"}}},
             {"behavior", behavior},
             {"invert", false}},
            {{"type", "Digits"}, {"individual_digits", false}},
            byte_split}}};
      all.push_back(splits);
    }
  }
  // Pieces of one character, beside tokens that take white space along.
  json strips = byte_level({});
  strips["added_tokens"].push_back(added(257, "<mask>", {"lstrip", "rstrip"}));
  strips["pre_tokenizer"] = {{"type", "Sequence"},
                             {"pretokenizers",
                              {{{"type", "Split"},
                                {"pattern", {{"Regex", "[a-z\\s]"}}},
                                {"behavior", "Isolated"},
                                {"invert", false}},
                               byte_split}}};
  all.push_back(strips);
  json literal = byte_level({});
  literal["pre_tokenizer"] = {{"type", "Sequence"},
                              {"pretokenizers",
                               {{{"type", "Split"},
                                 {"pattern", {{"String", "ing"}}},
                                 {"behavior", "Removed"},
                                 {"invert", false}},
                                strips["pre_tokenizer"]["pretokenizers"][0],
                                byte_split}}};
  all.push_back(literal);
  std::vector<tokenizer> out;
  for (const json& description : all) {
    out.push_back(read(description));
  }
  return out;
}

/// Pushes a text in pieces of random lengths and returns all ids that are ready.
ids_vector drained(token_stream& stream, std::string_view text, std::mt19937_64& random,
                   std::size_t longest) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size =
        std::min<std::size_t>(1 + random() % longest, text.size() - at);
    const auto done = stream.push(as_view(text.substr(at, size)));
    EXPECT_TRUE(done) << (done ? "" : done.error().message());
    at += size;
  }
  const auto done = stream.finish();
  EXPECT_TRUE(done) << (done ? "" : done.error().message());
  return {stream.ready().begin(), stream.ready().end()};
}

token_stream opened(const tokenizer& with, const token_stream_options& options = {}) {
  auto stream = token_stream::open(with, options);
  EXPECT_TRUE(stream) << (stream ? "" : stream.error().message());
  return std::move(*stream);
}

TEST(TokenStream, AnySplitOfTheBytesGivesTheIdsOfTheWhole) {
  std::mt19937_64 random(17);
  std::size_t kind = 0;
  for (const tokenizer& with : many_tokenizers()) {
    // Small windows look for a cut at nearly every byte.
    for (const std::size_t window : {1U, 2U, 3U, 5U, 8U, 13U, 40U, 300U}) {
      for (std::uint64_t repeat = 0; repeat < test::case_count("WEIR_TEST_SPLITS", 8);
           ++repeat) {
        const std::string text = random_text(random, 100);
        auto stream = opened(with, {.window = window});
        ASSERT_EQ(drained(stream, text, random, 7), ids_of(with, text))
            << "tokenizer " << kind << " window " << window << ": "
            << json(text).dump(-1, ' ', true);
      }
    }
    const std::string text = random_text(random, 20'000);
    auto stream = opened(with, {.window = 4096});
    EXPECT_EQ(drained(stream, text, random, 30'000), ids_of(with, text))
        << "tokenizer " << kind;
    ++kind;
  }
}

TEST(TokenStream, ARejectedTokenHidesTheOneInsideIt) {
  for (const char* flag : {"special", "normalized"}) {
    json description = byte_level({});
    description["added_tokens"].push_back(added(257, "he,un", {"single_word", flag}));
    description["added_tokens"].push_back(added(258, "un", {flag}));
    const auto with = read(description);
    const std::string text = "the,uncle " + std::string(40, 'a');
    const ids_vector whole = ids_of(with, text);
    EXPECT_EQ(std::count(whole.begin(), whole.end(), 258U), 0);
    for (std::size_t window = 1; window < text.size(); ++window) {
      std::mt19937_64 random(window);
      auto stream = opened(with, {.window = window});
      EXPECT_EQ(drained(stream, text, random, 3), whole) << window;
    }
  }
}

TEST(TokenStream, ACursorAtEveryIdGivesTheSameRest) {
  std::mt19937_64 random(31);
  std::size_t kind = 0;
  for (const tokenizer& with : many_tokenizers()) {
    const std::string text = random_text(random, 60);
    const ids_vector whole = ids_of(with, text);
    auto stream = opened(with, {.window = 1 + random() % 8});
    drained(stream, text, random, 5);
    for (std::size_t taken = 0; taken <= whole.size(); ++taken) {
      const token_cursor cursor = stream.cursor();
      ASSERT_EQ(cursor.taken, taken);
      auto again = token_stream::resume(with, cursor, 1 + random() % 8);
      ASSERT_TRUE(again) << again.error().message();
      const auto rest = std::string_view(text).substr(cursor.offset);
      ASSERT_EQ(
          drained(*again, rest, random, 9),
          ids_vector(whole.begin() + static_cast<std::ptrdiff_t>(taken), whole.end()))
          << "tokenizer " << kind << " id " << taken << ": "
          << json(text).dump(-1, ' ', true);
      stream.take(taken < whole.size() ? 1 : 0);
    }
    ++kind;
  }
}

TEST(TokenStream, ACursorReadsNoMoreThanAboutAWindowAgain) {
  std::mt19937_64 random(19);
  std::size_t kind = 0;
  for (const tokenizer& with : many_tokenizers()) {
    const std::string text = random_text(random, 10'000);
    const ids_vector whole = ids_of(with, text);
    auto stream = opened(with, {.window = 2048});
    drained(stream, text, random, 5000);
    std::uint64_t last = 0;
    for (std::size_t taken = 0; taken < whole.size();) {
      const std::size_t step =
          std::min<std::size_t>(random() % (whole.size() / 6 + 1), whole.size() - taken);
      stream.take(step);
      taken += step + (step == 0 ? 1 : 0);
      stream.take(step == 0 ? 1 : 0);
      const token_cursor cursor = stream.cursor();
      EXPECT_EQ(cursor.taken, taken);
      EXPECT_GE(cursor.offset, last);
      last = cursor.offset;
      auto again = token_stream::resume(with, cursor, 2048);
      ASSERT_TRUE(again) << again.error().message();
      const ids_vector rest =
          drained(*again, std::string_view(text).substr(cursor.offset), random, 5000);
      EXPECT_EQ(rest, ids_vector(whole.begin() + static_cast<std::ptrdiff_t>(taken),
                                 whole.end()))
          << "tokenizer " << kind << " at id " << taken;
    }
    EXPECT_GT(last + 2 * 2048, text.size()) << "tokenizer " << kind;
    ++kind;
  }
}

TEST(TokenStream, AResumedStreamCanBeResumedAgain) {
  std::mt19937_64 random(23);
  const auto with = many_tokenizers()[3];
  const std::string text = random_text(random, 100'000);
  const ids_vector whole = ids_of(with, text);
  token_cursor cursor = opened(with).cursor();
  ids_vector all;
  for (int times = 0; times < 8; ++times) {
    auto stream = token_stream::resume(with, cursor);
    ASSERT_TRUE(stream) << stream.error().message();
    drained(*stream, std::string_view(text).substr(cursor.offset), random, 9000);
    const std::size_t count =
        std::min<std::size_t>(stream->ready().size(), whole.size() / 8 + 1);
    const auto ids = stream->ready().first(count);
    all.insert(all.end(), ids.begin(), ids.end());
    stream->take(count);
    cursor = stream->cursor();
  }
  EXPECT_EQ(all, whole);
}

TEST(TokenStream, ATextThatHasGrownContinuesAtItsOldEnd) {
  const auto with = read(byte_level(some_merges()));
  auto stream = opened(with);
  ASSERT_TRUE(stream.push(as_view("the th")));
  ASSERT_TRUE(stream.finish());
  EXPECT_EQ(stream.ready().size(), 3U);
  stream.take(1);
  auto again = token_stream::resume(with, stream.cursor());
  ASSERT_TRUE(again);
  ASSERT_TRUE(again->push(as_view("the the")));
  ASSERT_TRUE(again->finish());
  EXPECT_EQ(ids_vector(again->ready().begin(), again->ready().end()),
            ids_vector{*with.id(spelled(' ') + "the")});
}

TEST(TokenStream, IllFormedBytesAreReplacedAsPythonReadsThem) {
  std::mt19937_64 random(29);
  const auto with = read(byte_level(some_merges()));
  // Each part and what Python's errors="replace" makes of it.
  const std::vector<std::pair<std::string, std::string>> parts = {
      {"a", "a"},
      {" the", " the"},
      {"\xFFz", "\xEF\xBF\xBDz"},
      {"\xE4\xB8z", "\xEF\xBF\xBDz"},
      {"\xED\xA0\x80z", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDz"},
      {"\xF0\x9F\x98z", "\xEF\xBF\xBDz"},
      {"\xC0\x80z", "\xEF\xBF\xBD\xEF\xBF\xBDz"},
      {"\xE4\xB8\xAD", "\xE4\xB8\xAD"}};
  std::string bytes;
  std::string text;
  for (int i = 0; i < 20'000; ++i) {
    const auto& [from, to] = parts[random() % parts.size()];
    bytes += from;
    text += to;
  }
  bytes += "\xF0\x9F";
  text += "\xEF\xBF\xBD";
  const ids_vector whole = ids_of(with, text);
  auto stream = opened(with, {.invalid = invalid_utf8::replace, .window = 512});
  EXPECT_EQ(drained(stream, bytes, random, 40), whole);
  for (int i = 0; i < 5; ++i) {
    stream.take(whole.size() / 6);
    const token_cursor cursor = stream.cursor();
    auto again = token_stream::resume(with, cursor);
    ASSERT_TRUE(again);
    const ids_vector rest =
        drained(*again, std::string_view(bytes).substr(cursor.offset), random, 7000);
    EXPECT_EQ(rest, ids_vector(whole.begin() + static_cast<std::ptrdiff_t>(cursor.taken),
                               whole.end()));
  }
}

TEST(TokenStream, IllFormedBytesAreRefusedWithTheirOffset) {
  const auto with = read(byte_level(some_merges()));
  for (const std::size_t cut : {0U, 1U, 70'001U, 70'002U}) {
    std::string text = std::string(70'000, 'a') + "\xE4\xB8" + "b";
    auto stream = opened(with);
    auto done = stream.push(as_view(text.substr(0, cut)));
    ASSERT_TRUE(done);
    done = stream.push(as_view(text.substr(cut)));
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), errc::corrupt);
    EXPECT_NE(done.error().message().find("0xe4 at byte 70000"), std::string::npos)
        << done.error().message();
  }
  auto stream = opened(with);
  ASSERT_TRUE(stream.push(as_view("ab\xE4\xB8")));
  const auto done = stream.finish();
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message().find("at byte 2"), std::string::npos);
}

TEST(TokenStream, CursorsThatDoNotBelongAreRefused) {
  const auto with = read(byte_level(some_merges()));
  auto stream = opened(with);
  ASSERT_TRUE(stream.push(as_view("the and")));
  ASSERT_TRUE(stream.finish());
  stream.take(2);
  const token_cursor good = stream.cursor();
  token_cursor cursor = good;
  cursor.tokenizer += 1;
  EXPECT_EQ(token_stream::resume(with, cursor).error().code(), errc::config_mismatch);
  cursor = good;
  cursor.inside = 2;
  EXPECT_EQ(token_stream::resume(with, cursor).error().code(), errc::corrupt);
  cursor = good;
  cursor.ids = 3;
  EXPECT_EQ(token_stream::resume(with, cursor).error().code(), errc::corrupt);
  // A text that ends before the ids that were taken.
  auto again = token_stream::resume(with, good);
  ASSERT_TRUE(again);
  ASSERT_TRUE(again->push(as_view("the")));
  EXPECT_EQ(again->finish().error().code(), errc::history_mismatch);
}

TEST(TokenStream, TokenizersThatLookBackAreRefusedByName) {
  const auto obstacle = [](const json& description) {
    const auto stream = token_stream::open(read(description));
    return stream ? std::string("none") : stream.error().message();
  };
  json description = byte_level({});
  description["normalizer"] = {{"type", "Prepend"}, {"prepend", "x"}};
  EXPECT_NE(obstacle(description).find("Prepend"), std::string::npos);
  description = byte_level({});
  description["pre_tokenizer"] = {{"type", "Split"},
                                  {"pattern", {{"Regex", "(?<=a)b"}}},
                                  {"behavior", "Isolated"},
                                  {"invert", false}};
  EXPECT_NE(obstacle(description).find("looks back"), std::string::npos);
  description["pre_tokenizer"]["pattern"]["Regex"] = "^a";
  EXPECT_NE(obstacle(description).find("looks back"), std::string::npos);
}

TEST(TokenStream, TheSpecialIdsOfTheTextComeOnce) {
  const auto with = read(wordpiece());
  auto stream = opened(with);
  EXPECT_EQ(stream.ready().size(), 1U);
  stream.take(1);
  const token_cursor cursor = stream.cursor();
  EXPECT_EQ(cursor.offset, 0U);
  auto again = token_stream::resume(with, cursor);
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->ready().empty());
  ASSERT_TRUE(again->push(as_view("the")));
  ASSERT_TRUE(again->finish());
  EXPECT_EQ(again->ready().size(), 2U);
  auto plain = token_stream::open(with, {.add_special_tokens = false});
  ASSERT_TRUE(plain);
  ASSERT_TRUE(plain->push(as_view("the")));
  ASSERT_TRUE(plain->finish());
  EXPECT_EQ(plain->ready().size(), 1U);
}

}  // namespace
}  // namespace weir::formats
