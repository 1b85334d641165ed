// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests texts that a tokenizer encodes while they are read: ids, states at any index,
/// resumed streams, and what is refused.
#include "stages/prose/source/tokenized.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "formats/tokens/made.hpp"
#include "support/temp_folder.hpp"
#include "weir/base/philox.hpp"
#include "weir/storage/context.hpp"

namespace weir::actors {
namespace {

using storage::context_stream;
using storage::token_chunk;
using ids_list = std::vector<std::uint32_t>;

/// Returns words whose tokens depend on their neighbours.
std::string english(std::size_t bytes, std::uint64_t seed) {
  const std::array<const char*, 8> words = {" the", " and",  "ing", " they'll",
                                            "\n\n", " 1234", "aaa", " é"};
  const philox random(seed, 3);
  std::string text;
  for (std::uint64_t i = 0; text.size() < bytes; ++i) {
    text += words[random.below(i, words.size())];
  }
  return text;
}

/// Three texts, of which the first has several cuts.
class Tokenized : public testing::Test {
 protected:
  void SetUp() override {
    const std::string json =
        formats::made::byte_level(formats::made::some_merges()).dump();
    with_ = or_throw(formats::tokenizer::from_json(as_view(json)));
    const std::vector<std::string> texts = {english(200'000, 1), english(40, 2),
                                            english(90'000, 3)};
    for (const std::string& text : texts) {
      paths_.push_back(folder_ / std::to_string(paths_.size()));
      std::ofstream(paths_.back()) << text;
      if (!ids_.empty()) {
        ids_.push_back(with_->vocabulary_size());
      }
      or_throw(with_->encode(text, ids_, {.add_special_tokens = false}));
      ends_.push_back(ids_.size());
    }
  }
  [[nodiscard]] std::unique_ptr<storage::token_source> open() const {
    return or_throw(open_tokenized(posix_file_system(), paths_, *with_, {}));
  }
  [[nodiscard]] std::unique_ptr<context_stream> stream() const {
    storage::stream_config config;
    config.chunk = 100;
    config.frequencies = {1};
    return or_throw(context_stream::open(config, open()));
  }

  const test::temp_folder folder_;
  std::optional<formats::tokenizer> with_;
  std::vector<std::string> paths_;
  ids_list ids_;                   ///< of all texts, with separators
  std::vector<std::size_t> ends_;  ///< index behind the last id of each text
};

TEST_F(Tokenized, GivesTheIdsOfWholeTexts) {
  const auto source = open();
  EXPECT_EQ(source->vocabulary(), with_->vocabulary_size() + 1);
  EXPECT_EQ(source->separator(), with_->vocabulary_size());
  ids_list found(ids_.size() + 10);
  EXPECT_EQ(or_throw(source->read(0, found)), ids_.size());
  found.resize(ids_.size());
  EXPECT_TRUE(found == ids_);
  EXPECT_EQ(or_throw(source->next_document(1)), ends_[0] + 1);
  EXPECT_EQ(or_throw(source->next_document(ends_[1] + 2)), ids_.size());
}

TEST_F(Tokenized, StatesDoNotDependOnHowFarWasRead) {
  const auto whole = open();
  ids_list all(ids_.size() + 1);
  ASSERT_EQ(or_throw(whole->read(0, all)), ids_.size());
  std::vector<std::size_t> places = {0, 1, 20'000, 43'210};
  for (const std::size_t end : ends_) {
    for (const std::size_t at : {end - 1, end, end + 1}) {
      places.push_back(std::min(at, ids_.size()));
    }
  }
  std::sort(places.begin(), places.end());
  const auto slow = open();
  std::size_t at = 0;
  for (const std::size_t place : places) {
    for (; at < place; ++at) {
      std::uint32_t one = 0;
      ASSERT_EQ(or_throw(slow->read(at, {&one, 1})), 1U);
    }
    const byte_vector state = or_throw(slow->state(place));
    ASSERT_TRUE(state == or_throw(whole->state(place))) << place;
    // A source that goes on there has the same states and ids.
    const auto resumed = open();
    or_throw(resumed->restore_state(place, state));
    const std::size_t before = std::min<std::size_t>(place, 50);
    or_throw(
        resumed->continue_at(place, std::span(ids_).subspan(place - before, before)));
    EXPECT_TRUE(or_throw(resumed->state(place)) == state) << place;
    ids_list more(40'000);
    const std::size_t got = or_throw(resumed->read(place, more));
    ASSERT_EQ(got, std::min(more.size(), ids_.size() - place));
    ASSERT_TRUE(std::equal(more.begin(), more.begin() + static_cast<long>(got),
                           ids_.begin() + static_cast<long>(place)))
        << place;
    const std::size_t later = place + got;
    EXPECT_TRUE(or_throw(resumed->state(later)) == or_throw(whole->state(later)))
        << place;
  }
}

TEST_F(Tokenized, AStreamThatIsResumedTwiceHasTheChunksOfTheWhole) {
  std::vector<token_chunk> expected;
  const auto first = stream();
  while (auto chunk = or_throw(first->next_chunk(100))) {
    expected.push_back(std::move(*chunk));
  }
  const auto last = or_throw(first->cursor(9));
  auto current = stream();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (i % (expected.size() / 3) == 5) {
      // Chunks that are read ahead leave no trace in the cursor.
      auto next = stream();
      const auto cursor = or_throw(current->cursor(i));
      ASSERT_TRUE(current->next_chunk(100));
      ASSERT_TRUE(next->restore(cursor)) << i;
      EXPECT_EQ(or_throw(next->cursor(i)), cursor);
      current = std::move(next);
    }
    const auto chunk = or_throw(current->next_chunk(100));
    ASSERT_TRUE(chunk);
    ASSERT_TRUE(chunk->tokens == expected[i].tokens) << i;
    ASSERT_TRUE(chunk->boundaries == expected[i].boundaries) << i;
  }
  EXPECT_EQ(or_throw(current->cursor(9)), last);
}

TEST_F(Tokenized, RefusesTextThatWasChangedBeforeTheCut) {
  const auto first = stream();
  while (first->position() < 60'000) {
    ASSERT_TRUE(or_throw(first->next_chunk(100)));
  }
  const auto cursor = or_throw(first->cursor(1));
  std::string text = english(200'000, 1);
  for (std::size_t at = 0; at < text.size(); at += 3000) {
    text[at] = 'z';
  }
  std::ofstream(paths_[0], std::ios::trunc) << text;
  const auto resumed = stream()->restore(cursor);
  ASSERT_FALSE(resumed);
  EXPECT_EQ(resumed.error().code(), errc::history_mismatch);
}

TEST_F(Tokenized, BytesThatAreNotUtf8AreRefusedOrReplaced) {
  std::ofstream(folder_ / "bad") << "the \xff and";
  const auto opened = [&](bool replace) {
    tokenized_options options;
    options.replace_invalid = replace;
    return or_throw(
        open_tokenized(posix_file_system(), {folder_ / "bad"}, *with_, options));
  };
  ids_list some(100);
  const auto refused = opened(false)->read(0, some);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::corrupt);
  EXPECT_EQ(refused.error().location(), folder_ / "bad" + ":0");
  ids_list expected;
  or_throw(
      with_->encode("the \xef\xbf\xbd and", expected, {.add_special_tokens = false}));
  some.resize(or_throw(opened(true)->read(0, some)));
  EXPECT_EQ(some, expected);
}

TEST_F(Tokenized, OtherFilesAndStatesAreRefused) {
  const auto source = open();
  EXPECT_EQ(source->restore_state(5, byte_vector(7)).error().code(), errc::corrupt);
  EXPECT_FALSE(source->continue_at(5, {}));
  std::ofstream(folder_ / "empty");
  EXPECT_EQ(
      open_tokenized(posix_file_system(), {folder_ / "empty"}, *with_, {}).error().code(),
      errc::source_unavailable);
  EXPECT_FALSE(open_tokenized(posix_file_system(), {}, *with_, {}));
}

}  // namespace
}  // namespace weir::actors
