// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests texts that a tokenizer encodes while they are read: ids, states at any index,
/// resumed streams, and what is refused.
#include "stages/prose/source/tokenized.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "formats/tokens/made.hpp"
#include "support/failing_disk.hpp"
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
  [[nodiscard]] std::unique_ptr<context_stream> stream(std::uint32_t lanes = 1) const {
    storage::stream_config config;
    config.chunk = 100;
    config.lanes = lanes;
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
    options.skip_damage = replace;
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

TEST_F(Tokenized, LanesReadTheChunksThatTokenFilesGive) {
  for (const std::uint32_t lanes : {2U, 4U}) {
    storage::stream_config config;
    config.chunk = 100;
    config.lanes = lanes;
    config.frequencies = {1};
    const auto expected = or_throw(
        context_stream::open(config, or_throw(storage::open_memory_tokens(ids_))));
    auto current = stream(lanes);
    for (std::size_t i = 0;; ++i) {
      if (i % 97 == 13) {
        auto next = stream(lanes);
        const auto cursor = or_throw(current->cursor(i));
        ASSERT_TRUE(next->restore(cursor)) << i;
        EXPECT_EQ(or_throw(next->cursor(i)), cursor) << i;
        const auto other = or_throw(expected->cursor(i));
        EXPECT_EQ(cursor.ring, other.ring);
        EXPECT_EQ(cursor.history_hash, other.history_hash);
        current = std::move(next);
      }
      const auto chunk = or_throw(current->next_chunk(100));
      const auto same = or_throw(expected->next_chunk(100));
      ASSERT_EQ(chunk.has_value(), same.has_value()) << i;
      if (!chunk) {
        break;
      }
      ASSERT_TRUE(chunk->tokens == same->tokens) << lanes << " " << i;
      ASSERT_EQ(chunk->lane, same->lane);
      ASSERT_EQ(chunk->lookahead, same->lookahead);
    }
  }
  storage::stream_config far;
  far.lanes = 16;
  far.chunk = 65'536;
  far.frequencies = {1};
  EXPECT_EQ(context_stream::open(far, open()).error().code(), errc::invalid_argument);
}

/// Returns ASCII text, which may be cut anywhere.
std::string ascii(std::size_t bytes, std::uint64_t seed) {
  std::string text = english(bytes, seed);
  for (char& c : text) {
    c = static_cast<unsigned char>(c) < 128 ? c : 'y';
  }
  return text;
}

/// Returns the ids of several texts, with a separator behind those of a list.
ids_list ids_of(const formats::tokenizer& with, const std::vector<std::string>& texts,
                const std::vector<std::size_t>& separated) {
  ids_list out;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    or_throw(with.encode(texts[i], out, {.add_special_tokens = false}));
    if (std::find(separated.begin(), separated.end(), i) != separated.end()) {
      out.push_back(with.vocabulary_size());
    }
  }
  return out;
}

TEST_F(Tokenized, PagesThatCannotBeReadAreLeftOutAndStayLeftOut) {
  const std::string text(ascii(60'000, 7));
  const std::string path = folder_ / "page";
  std::ofstream(path) << text;
  test::failing_disk disk;
  disk.begin = 9000;
  disk.end = 12'300;  // pages 2 and 3
  tokenized_options options;
  const auto open = [&] {
    return or_throw(open_tokenized(disk, {path}, *with_, options));
  };
  ids_list some(60'000);
  const auto refused = open()->read(0, some);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().hint(), "on_damage = \"skip\" leaves unreadable ranges out");
  options.skip_damage = true;
  const ids_list expected =
      ids_of(*with_, {text.substr(0, 8192), text.substr(16'384)}, {0});
  const auto whole = open();
  some.resize(or_throw(whole->read(0, some)));
  ASSERT_TRUE(some == expected);
  EXPECT_EQ(whole->vocabulary(), with_->vocabulary_size() + 1);
  for (const std::size_t place : {std::size_t{5}, std::size_t{1900}, some.size() / 2}) {
    const auto slow = open();
    ids_list begin(place);
    ASSERT_EQ(or_throw(slow->read(0, begin)), place);
    const byte_vector state = or_throw(slow->state(place));
    EXPECT_TRUE(state == or_throw(whole->state(place))) << place;
    // Behind the range, the repaired disk gives the ids of the failing one.
    disk.end = place == some.size() / 2 ? 9000 : 12'300;
    const auto again = open();
    or_throw(again->restore_state(place, state));
    or_throw(again->continue_at(place, std::span(expected).first(place)));
    ids_list rest(60'000);
    rest.resize(or_throw(again->read(place, rest)));
    EXPECT_TRUE(std::equal(rest.begin(), rest.end(),
                           expected.begin() + static_cast<long>(place), expected.end()))
        << place;
    EXPECT_EQ(again->left_out(expected.size()).size(), 1U);
    disk.end = 12'300;
  }
}

TEST_F(Tokenized, RangesByHandAreLeftOutOfTheTextBehindTheCursor) {
  const std::string text(ascii(60'000, 8));
  const std::string path = folder_ / "hand";
  std::ofstream(path) << text;
  tokenized_options options;
  const auto open = [&](std::vector<storage::file_range> skip, bool resumes) {
    options.skip = std::move(skip);
    auto opened = or_throw(open_tokenized(posix_file_system(), {path}, *with_, options));
    if (!resumes) {
      or_throw(opened->go_on_at(0));
    }
    return opened;
  };
  const storage::file_range first{path, 3000, 3300};
  const storage::file_range second{path, 40'000, 41'000};
  const ids_list expected = ids_of(
      *with_, {text.substr(0, 3000), text.substr(3300, 36'700), text.substr(41'000)}, {});
  ids_list found(60'000);
  found.resize(or_throw(open({first, second}, false)->read(0, found)));
  ASSERT_TRUE(found == expected);
  const auto run = open({first}, false);
  ids_list begin(6000);
  ASSERT_EQ(or_throw(run->read(0, begin)), begin.size());
  const byte_vector state = or_throw(run->state(6000));
  const auto go_on = [&](std::vector<storage::file_range> skip) -> result<ids_list> {
    const auto next = open(std::move(skip), true);
    WEIR_CHECK(next->restore_state(6000, state));
    WEIR_CHECK(next->go_on_at(6000));
    WEIR_CHECK(next->continue_at(6000, begin));
    ids_list rest(60'000);
    WEIR_TRY(const std::size_t got, next->read(6000, rest));
    rest.resize(got);
    return rest;
  };
  const ids_list rest = or_throw(go_on({second}));
  EXPECT_TRUE(
      std::equal(rest.begin(), rest.end(), expected.begin() + 6000, expected.end()));
  EXPECT_TRUE(go_on({first}));
  EXPECT_EQ(go_on({{path, 100, 200}}).error().code(), errc::config_mismatch);
}

TEST_F(Tokenized, RangesByHandLieBehindTheFurthestOfSeveralLanes) {
  storage::stream_config config;
  config.chunk = 100;
  config.lanes = 2;
  config.frequencies = {1};
  const auto open = [&](std::vector<storage::file_range> skip) {
    tokenized_options options;
    options.skip = std::move(skip);
    return or_throw(context_stream::open(
        config, or_throw(open_tokenized(posix_file_system(), paths_, *with_, options))));
  };
  const auto first = open({});
  while (first->position() < 30'000) {
    ASSERT_TRUE(or_throw(first->next_chunk(100)));
  }
  const auto cursor = or_throw(first->cursor(1));
  // A range that was consumed has a name, although its text is not encoded again.
  const auto refused = open({{paths_[0], 100, 200}})->restore(cursor);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::config_mismatch) << refused.error().message();
  const auto whole = open({});
  ASSERT_TRUE(whole->restore(cursor));
  const auto next = open({{paths_[2], 0, 90'000 - 1}});
  ASSERT_TRUE(next->restore(cursor));
  std::size_t less = 0;
  std::size_t more = 0;
  while (const auto chunk = or_throw(next->next_chunk(100))) {
    less += chunk->tokens.size();
  }
  while (const auto chunk = or_throw(whole->next_chunk(100))) {
    more += chunk->tokens.size();
  }
  EXPECT_EQ(30'000 + more, ids_.size());
  EXPECT_LT(less, ends_[1] + 30 - 30'000);
}

TEST_F(Tokenized, LanesKeepRangesByHandThatWereConsumed) {
  storage::stream_config config;
  config.chunk = 100;
  config.lanes = 2;
  config.frequencies = {1};
  const auto open = [&](std::vector<storage::file_range> skip, bool begins) {
    tokenized_options options;
    options.skip = std::move(skip);
    auto source = or_throw(open_tokenized(posix_file_system(), paths_, *with_, options));
    if (begins) {
      or_throw(source->go_on_at(0));
    }
    return or_throw(context_stream::open(config, std::move(source)));
  };
  const storage::file_range range{paths_[0], 2000, 3000};
  const auto whole = open({range}, true);
  std::vector<token_chunk> chunks;
  while (auto chunk = or_throw(whole->next_chunk(100))) {
    chunks.push_back(std::move(*chunk));
  }
  for (const std::size_t count : {2U, 9U, 30U, 31U, 200U}) {
    const auto first = open({range}, true);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_TRUE(or_throw(first->next_chunk(100)));
    }
    const auto cursor = or_throw(first->cursor(1));
    for (const bool repeated : {false, true}) {
      if (!repeated && count < 20) {
        continue;  // the range lies behind the cursor, which does not know it
      }
      const auto next =
          open(repeated ? std::vector{range} : std::vector<storage::file_range>(), false);
      or_throw(next->restore(cursor));
      EXPECT_EQ(or_throw(next->cursor(1)), cursor) << count;
      for (std::size_t i = count; i < chunks.size(); ++i) {
        const auto chunk = or_throw(next->next_chunk(100));
        ASSERT_TRUE(chunk && chunk->tokens == chunks[i].tokens) << count << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace weir::actors
