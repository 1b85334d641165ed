// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the state of the stream hub: the order of files, and cursors of runs that read
/// their files in another order.
#include "source/stream_hub.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "support/temp_folder.hpp"

namespace weir::test {
namespace {

using actors::hub_state;
using actors::stream_spec;

/// Three files of 40 equal letters, named so that "a" is the first by its name.
class StreamHub : public testing::Test {
 protected:
  void SetUp() override {
    for (const char letter : {'a', 'b', 'c'}) {
      write(letter, std::string(40, letter));
    }
  }
  void write(char letter, const std::string& text) const {
    std::ofstream(folder_ / std::string(1, letter)) << text;
  }
  [[nodiscard]] stream_spec spec_of(const std::string& letters) const {
    stream_spec spec;
    spec.eot = false;
    spec.config.chunk = 10;
    for (const char letter : letters) {
      spec.paths.push_back(folder_ / std::string(1, letter));
    }
    return spec;
  }
  /// Pulls chunks of ten tokens, and returns the first letter of each.
  static std::string pull(hub_state& hub, std::size_t chunks,
                          std::optional<storage::chunk_mark>* last = nullptr) {
    std::string letters;
    for (std::size_t i = 0; i < chunks; ++i) {
      auto replies = hub.pull({{0, 10}});
      if (!replies || !replies->front().chunk) {
        break;
      }
      const auto& chunk = *replies->front().chunk;
      letters += static_cast<char>(chunk.tokens.front());
      if (last != nullptr) {
        *last = chunk.mark;
      }
    }
    return letters;
  }
  /// Returns the cursor behind some chunks of the files in an order.
  [[nodiscard]] storage::stream_cursor cursor_of(const std::string& letters,
                                                 std::size_t chunks) const {
    hub_state hub(posix_file_system());
    EXPECT_TRUE(hub.open(spec_of(letters)));
    std::optional<storage::chunk_mark> last;
    EXPECT_EQ(pull(hub, chunks, &last).size(), chunks);
    auto cursor = hub.cursor({{*last}, chunks});
    EXPECT_TRUE(cursor);
    return *cursor;
  }
  temp_folder folder_;
};

TEST_F(StreamHub, ReadsFilesInTheOrderOfTheUserAndAFileNamedTwiceTwice) {
  hub_state hub(posix_file_system());
  const auto info = hub.open(spec_of("caca"));
  ASSERT_TRUE(info) << info.error().message();
  EXPECT_EQ(info->tokens, 160U);
  EXPECT_EQ(pull(hub, 15), "ccccaaaaccccaaa");
}

TEST_F(StreamHub, ContinuesInTheOrderOfTheUser) {
  stream_spec spec = spec_of("cab");
  spec.cursor = cursor_of("cab", 6);
  hub_state hub(posix_file_system());
  ASSERT_TRUE(hub.open(spec));
  EXPECT_EQ(pull(hub, 4), "aabb");
}

TEST_F(StreamHub, ContinuesARunOfAnEarlierVersionThatHadSortedItsFiles) {
  stream_spec spec = spec_of("cabc");
  spec.cursor = cursor_of("abc", 6);
  hub_state hub(posix_file_system());
  const auto info = hub.open(spec);
  ASSERT_TRUE(info) << info.error().message();
  EXPECT_EQ(pull(hub, 5), "bbccc");
}

TEST_F(StreamHub, RefusesOtherFilesInAnyOrder) {
  stream_spec spec = spec_of("cab");
  spec.cursor = cursor_of("abc", 6);
  write('a', std::string(39, 'a') + "x");
  hub_state hub(posix_file_system());
  const auto refused = hub.open(spec);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::history_mismatch);
}

}  // namespace
}  // namespace weir::test
