// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests that a stream goes on with another chunk size, another number of lanes or a
/// longer source, and refuses what would lose text or read it twice.
#include <gtest/gtest.h>

#include "storage/context_support.hpp"

namespace weir::storage {
namespace {

using test::by_lane;
using test::concatenated;
using test::open_stream;
using test::random_tokens;
using test::read_all;
using test::tokens;

stream_config config_of(std::uint32_t lanes, std::size_t chunk) {
  stream_config c;
  c.lanes = lanes;
  c.chunk = chunk;
  c.frequencies = {1};
  return c;
}

/// Goes on behind a cursor in another process.
std::unique_ptr<context_stream> go_on(const stream_config& config, const tokens& corpus,
                                      const stream_cursor& cursor,
                                      const restore_policy& accepted) {
  auto stream = open_stream(config, corpus);
  or_throw(stream->restore(or_throw(decode_cursor(encode(cursor))), accepted));
  return stream;
}

/// Returns the tokens of chunks in the order of the source, which one pass over the lanes
/// has read chunk by chunk.
tokens rest_of(context_stream& stream, std::size_t n, std::size_t max_count = 1000000) {
  return concatenated(read_all(stream, n, 0, max_count));
}

}  // namespace

TEST(Geometry, AnEraOfSeveralLanesGoesOnWhereTheyAreLevel) {
  const tokens corpus = random_tokens(1000, 50, 4);
  for (std::size_t chunks = 0; chunks < 12; ++chunks) {
    const auto stream = open_stream(config_of(3, 20), corpus);
    read_all(*stream, 20, 0, chunks);
    const auto cursor = or_throw(stream->cursor(chunks));
    const auto next = go_on(config_of(3, 32), corpus, cursor, {.geometry = true});
    EXPECT_EQ(next->position(), chunks * 20);
    // The next chunk goes to the lane with the fewest, so a lane may be ahead of its
    // turn.
    if (chunks % 3 == 0) {
      EXPECT_EQ(rest_of(*next, 32),
                tokens(corpus.begin() + 20 * static_cast<int>(chunks), corpus.end()));
    }
    const auto two = or_throw(next->cursor(chunks + 1));
    EXPECT_EQ(two.eras.back().source_offset, chunks * 20);
    EXPECT_EQ(
        encode(or_throw(go_on(config_of(3, 32), corpus, two, {})->cursor(chunks + 1))),
        encode(two));
  }
}

TEST(Geometry, LanesThatAreNotLevelCannotBeginAnEra) {
  const tokens corpus = random_tokens(1000, 51);
  const auto stream = open_stream(config_of(2, 20), corpus);
  or_throw(stream->next_lane_chunk(20, 0));
  or_throw(stream->next_lane_chunk(20, 0));
  const auto cursor = or_throw(stream->cursor(1));
  const auto r =
      open_stream(config_of(2, 30), corpus)->restore(cursor, {.geometry = true});
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::config_mismatch);
  EXPECT_EQ(r.error().text(),
            "cannot begin an era at token 40: expected 2 lanes that have read the same "
            "text up to its end, found one ahead of others");
}

// The text behind the cursor is dealt to the new lanes, and a cursor in the new lanes can
// be restored at every chunk, and changed once more.
TEST(Geometry, AnotherNumberOfLanesGoesOnWithTheRestOfTheText) {
  const tokens corpus = random_tokens(900, 52, 5);
  const auto stream = open_stream(config_of(2, 20), corpus);
  read_all(*stream, 20, 0, 10);
  const auto cursor = or_throw(stream->cursor(5));
  const auto config = config_of(3, 16);
  const std::vector<std::uint64_t> starts = {100, 100, 0};
  const restore_policy dealt{.geometry = true, .lane_starts = starts};
  EXPECT_EQ(open_stream(config, corpus)->restore(cursor).error().code(),
            errc::lane_mismatch);
  const auto whole = go_on(config, corpus, cursor, dealt);
  EXPECT_EQ(whole->position(), 200U);
  const auto first = or_throw(whole->next_lane_chunk(16, 0));
  EXPECT_EQ(first->lane_position, 100U);
  EXPECT_EQ(first->chunk_id, 10U);
  const auto chunks = read_all(*go_on(config, corpus, cursor, dealt), 16);
  EXPECT_EQ(concatenated(chunks), tokens(corpus.begin() + 200, corpus.end()));
  for (std::size_t cut = 0; cut < chunks.size(); cut += 3) {
    const auto part = go_on(config, corpus, cursor, dealt);
    read_all(*part, 16, 0, cut);
    const auto middle = or_throw(part->cursor(6));
    ASSERT_TRUE(middle.origin);
    EXPECT_EQ(middle.dataset_index, 200 + 16 * cut);
    EXPECT_EQ(middle.chunk_id, 10 + cut);
    const auto rest = go_on(config, corpus, middle, {});
    EXPECT_EQ(encode(or_throw(rest->cursor(6))), encode(middle));
    EXPECT_EQ(rest_of(*rest, 16),
              tokens(corpus.begin() + 200 + 16 * static_cast<int>(cut), corpus.end()));
    rest_of(*part, 16);
    EXPECT_EQ(encode(or_throw(rest->cursor(9))), encode(or_throw(part->cursor(9))));
    // From three lanes to one.
    const auto one =
        go_on(config_of(1, 50), corpus, middle, {.geometry = true, .lane_starts = {0}});
    EXPECT_EQ(rest_of(*one, 50),
              tokens(corpus.begin() + 200 + 16 * static_cast<int>(cut), corpus.end()));
  }
}

TEST(Geometry, ACursorInNewLanesIsCheckedToo) {
  tokens corpus = random_tokens(900, 53);
  const auto stream = open_stream(config_of(2, 20), corpus);
  read_all(*stream, 20, 0, 10);
  const auto config = config_of(3, 20);
  const auto next = go_on(config, corpus, or_throw(stream->cursor(5)),
                          {.geometry = true, .lane_starts = {0, 0, 0}});
  read_all(*next, 20, 0, 7);
  const auto cursor = or_throw(next->cursor(8));
  auto wrong = cursor;
  wrong.origin->tokens += 1;
  EXPECT_EQ(open_stream(config, corpus)->restore(wrong).error().code(), errc::corrupt);
  wrong = cursor;
  wrong.origin->history += 1;
  EXPECT_EQ(open_stream(config, corpus)->restore(wrong).error().code(),
            errc::history_mismatch);
  wrong = cursor;
  wrong.origin->positions[1] = 1000;
  EXPECT_EQ(open_stream(config, corpus)->restore(wrong).error().code(), errc::corrupt);
  auto bytes = encode(cursor);
  bytes.pop_back();
  EXPECT_EQ(decode_cursor(bytes).error().code(), errc::torn);
  corpus[210] = (corpus[210] + 1) % 256;
  EXPECT_EQ(open_stream(config, corpus)->restore(cursor).error().code(),
            errc::history_mismatch);
}

TEST(Geometry, ASourceThatHasGrownGoesOnIfItIsAcceptedAndItsBeginIsTheSame) {
  tokens corpus = random_tokens(9000, 54, 5);
  const auto config = config_of(1, 64);
  const auto stream = open_stream(config, corpus);
  read_all(*stream, 64, 0, 100);
  const auto cursor = or_throw(stream->cursor(100));
  EXPECT_EQ(or_throw(source_tokens(cursor.source_state)), 9000U);
  for (const std::size_t more : {1U, 100U, 3000U, 1100000U}) {
    tokens longer = corpus;
    longer.resize(corpus.size() + more, 7);
    EXPECT_EQ(open_stream(config, longer)->restore(cursor).error().code(),
              errc::history_mismatch);
    EXPECT_EQ(rest_of(*go_on(config, longer, cursor, {.grown = true}), 64, 40),
              rest_of(*stream, 64, 40));
    or_throw(stream->restore(cursor));
    longer[8999] = (longer[8999] + 1) % 256;
    EXPECT_EQ(
        open_stream(config, longer)->restore(cursor, {.grown = true}).error().code(),
        errc::history_mismatch);
  }
}

TEST(Geometry, ALoopThatHasBegunAgainCannotGrow) {
  tokens corpus = random_tokens(500, 55);
  auto config = config_of(1, 64);
  config.end = end_policy::loop;
  const auto stream = open_stream(config, corpus);
  read_all(*stream, 64, 0, 5);
  const auto early = or_throw(stream->cursor(5));
  read_all(*stream, 64, 0, 5);
  const auto late = or_throw(stream->cursor(10));
  corpus.resize(600, 3);
  EXPECT_TRUE(open_stream(config, corpus)->restore(early, {.grown = true}));
  const auto refused = open_stream(config, corpus)->restore(late, {.grown = true});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::history_mismatch);
  EXPECT_EQ(refused.error().text(),
            "cannot resume: expected end of text as consumed, found token 3");
}

// The last tokens of the cursor are all in the second pass, and equal in both texts.
TEST(Geometry, ALoopOfEqualTokensThatHasBegunAgainCannotGrow) {
  auto config = config_of(1, 100);
  config.end = end_policy::loop;
  const auto stream = open_stream(config, tokens(4200, 3));
  read_all(*stream, 100, 0, 84);
  const auto late = or_throw(stream->cursor(84));
  const auto refused =
      open_stream(config, tokens(4300, 3))->restore(late, {.grown = true});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::history_mismatch);
  EXPECT_EQ(refused.error().text(),
            "cannot resume on a text that has grown: expected lane 0 in the first pass "
            "over its 4200 tokens, found it behind");
  EXPECT_EQ(refused.error().hint(),
            "restore the text that the run began with, or start another run");
}

}  // namespace weir::storage
