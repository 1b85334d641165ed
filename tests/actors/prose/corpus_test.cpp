// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the opening of a corpus: the order of files, and cursors of runs that read their
/// files in another order.
#include "stages/prose/corpus.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "support/temp_folder.hpp"

namespace weir::test {
namespace {

using actors::continue_corpus;
using actors::corpus_order;
using actors::open_corpus;
using storage::context_stream;

/// Three files of 40 equal letters, named so that "a" is the first by its name.
class Corpus : public testing::Test {
 protected:
  void SetUp() override {
    for (const char letter : {'a', 'b', 'c'}) {
      write(letter, std::string(40, letter));
    }
  }
  void write(char letter, const std::string& text) const {
    std::ofstream(folder_ / std::string(1, letter)) << text;
  }
  [[nodiscard]] corpus_order order_of(const std::string& letters) const {
    corpus_order order;
    order.source.eot = false;
    order.config.chunk = 10;
    for (const char letter : letters) {
      order.source.paths.push_back(folder_ / std::string(1, letter));
    }
    return order;
  }
  /// Pulls chunks of ten tokens, and returns the first letter of each.
  static std::string pull(context_stream& stream, std::size_t chunks,
                          std::optional<storage::chunk_mark>* last = nullptr) {
    std::string letters;
    for (std::size_t i = 0; i < chunks; ++i) {
      const auto chunk = stream.next_lane_chunk(10, 0);
      if (!chunk || !*chunk) {
        break;
      }
      letters += static_cast<char>((*chunk)->tokens.front());
      if (last != nullptr) {
        *last = (*chunk)->mark;
      }
    }
    return letters;
  }
  /// Returns the cursor behind some chunks of the files in an order.
  [[nodiscard]] storage::stream_cursor cursor_of(const std::string& letters,
                                                 std::size_t chunks) const {
    auto opened = open_corpus(posix_file_system(), order_of(letters));
    EXPECT_TRUE(opened);
    std::optional<storage::chunk_mark> last;
    EXPECT_EQ(pull(*opened->stream, chunks, &last).size(), chunks);
    auto cursor = opened->stream->cursor_at(*last, chunks);
    EXPECT_TRUE(cursor);
    return *cursor;
  }
  temp_folder folder_;
};

TEST_F(Corpus, ReadsFilesInTheOrderOfTheUserAndAFileNamedTwiceTwice) {
  const auto opened = open_corpus(posix_file_system(), order_of("caca"));
  ASSERT_TRUE(opened) << opened.error().message();
  EXPECT_EQ(opened->tokens, 160U);
  EXPECT_EQ(pull(*opened->stream, 15), "ccccaaaaccccaaa");
}

TEST_F(Corpus, ContinuesInTheOrderOfTheUser) {
  const auto opened =
      continue_corpus(posix_file_system(), order_of("cab"), cursor_of("cab", 6));
  ASSERT_TRUE(opened) << opened.error().message();
  EXPECT_EQ(pull(*opened->stream, 4), "aabb");
}

TEST_F(Corpus, ContinuesARunOfAnEarlierVersionThatHadSortedItsFiles) {
  const auto opened =
      continue_corpus(posix_file_system(), order_of("cabc"), cursor_of("abc", 6));
  ASSERT_TRUE(opened) << opened.error().message();
  EXPECT_EQ(pull(*opened->stream, 5), "bbccc");
}

TEST_F(Corpus, RefusesOtherFilesInAnyOrder) {
  const auto cursor = cursor_of("abc", 6);
  write('a', std::string(39, 'a') + "x");
  const auto refused = continue_corpus(posix_file_system(), order_of("cab"), cursor);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::history_mismatch);
}

}  // namespace
}  // namespace weir::test
