// SPDX-License-Identifier: Apache-2.0
/// @file
/// Turns of live sources, their commands and boundaries.
#include <unistd.h>

#include "storage/live/live_support.hpp"

using namespace weir;
using namespace weir::storage;
using namespace weir::test;

TEST(LiveTurns, EndChunksAndDoNotWaitForTheNextTurn) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  live_options options;
  options.turns = true;
  auto stream = stream_of(or_throw(open_pipe_source(ends[0], "stdin", options)), 4);
  const auto write = [&](const std::string& text) {
    ASSERT_EQ(::write(ends[1], text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
  };
  EXPECT_FALSE(or_throw(stream->ready(4, 0, 0)));
  write("hello\nab");
  EXPECT_TRUE(or_throw(stream->ready(4, 0, 1000)));
  EXPECT_EQ(chunks_of(*stream, 4, 2), "hell o|");
  EXPECT_FALSE(or_throw(stream->ready(4, 0, 0)));
  write("\n/reset\n/res\n//reset\n/reset\n");
  EXPECT_EQ(chunks_of(*stream, 4, 4), "ab| ^/res | /res");
  write("next");
  ::close(ends[1]);
  EXPECT_EQ(chunks_of(*stream, 4), "et| ^next");
  ::close(ends[0]);
}

TEST(LiveTurns, AResumeWithinALineTakesNoTextForACommand) {
  const std::string text = "a/reset\nb//reset\n";
  live_options options;
  options.turns = true;
  /// Opens a pipe that holds a text and has no writer.
  const auto open = [&](const std::string& rest) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    EXPECT_EQ(::write(ends[1], rest.data(), rest.size()),
              static_cast<ssize_t>(rest.size()));
    ::close(ends[1]);
    return std::pair(stream_of(or_throw(open_pipe_source(ends[0], "stdin", options)), 1),
                     ends[0]);
  };
  const auto [whole, whole_end] = open(text);
  const auto chunks = read_all(*whole, 1);
  ASSERT_EQ(text_of(concatenated(chunks)), "a/reset|b//reset|");
  for (std::size_t i = 0; i + 1 < chunks.size(); ++i) {
    const auto [stream, end] = open(text.substr(i + 1));
    or_throw(stream->restore(or_throw(whole->cursor_at(chunks[i].mark, 1))));
    EXPECT_EQ(text_of(concatenated(read_all(*stream, 1))),
              text_of(concatenated(chunks)).substr(i + 1));
    ::close(end);
  }
  ::close(whole_end);
}

TEST(LiveTurns, BehindAResetTheTokensOfTheNextTurnAreAskedFor) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  live_options options;
  options.turns = true;
  auto stream = stream_of(or_throw(open_pipe_source(ends[0], "stdin", options)), 4);
  ASSERT_EQ(::write(ends[1], "abcdefgh\n", 9), 9);
  EXPECT_EQ(chunks_of(*stream, 2, 1), "ab");
  or_throw(stream->reset());
  EXPECT_FALSE(or_throw(stream->ready(2, 0, 0)));
  ASSERT_EQ(::write(ends[1], "ij\n", 3), 3);
  EXPECT_TRUE(or_throw(stream->ready(2, 0, 1000)));
  EXPECT_EQ(chunks_of(*stream, 4, 1), "ij|");
  ::close(ends[1]);
  ::close(ends[0]);
}

TEST(LiveTurns, ChunksTellBoundaries) {
  const std::string hello = "{\"hello\": 1}\n";
  live_options options;
  options.turns = true;
  auto stream = stream_of(says(hello + "{\"text\": \"ab\"}\n{\"reset\": true}\n"
                                       "{\"text\": \"abc\"}\n{\"end\": true}\n",
                               options),
                          8);
  const auto chunks = read_all(*stream, 8);
  ASSERT_EQ(chunks.size(), 2U);
  EXPECT_FALSE(chunks[0].new_context);
  EXPECT_EQ(chunks[0].boundaries, (tokens{3}));
  EXPECT_FALSE(chunks[0].lookahead);
  EXPECT_TRUE(chunks[1].new_context);
  EXPECT_EQ(chunks[1].boundaries, (tokens{0, 4}));
}

TEST(LiveTurns, AnInterruptedTurnGoesOnWithItsNextToken) {
  live_options options;
  options.turns = true;
  const std::string text = "hello world\nnext\n";
  const auto reads = [&](const std::string& sent, const stream_cursor* from,
                         std::size_t count) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    EXPECT_EQ(::write(ends[1], sent.data(), sent.size()),
              static_cast<ssize_t>(sent.size()));
    ::close(ends[1]);
    auto stream = stream_of(or_throw(open_pipe_source(ends[0], "stdin", options)), 4);
    if (from != nullptr) {
      or_throw(stream->restore(*from));
    }
    auto chunks = read_all(*stream, 4, 0, count);
    const auto cursor = or_throw(stream->cursor(chunks.size()));
    ::close(ends[0]);
    return std::pair{std::move(chunks), cursor};
  };
  const auto [expected, last] = reads(text, nullptr, 100);
  ASSERT_EQ(expected.size(), 5U);
  std::size_t at = 0;
  for (std::size_t count = 1; count < expected.size(); ++count) {
    at += expected[count - 1].tokens.size();
    // The writer is told the place, and goes on there.
    const auto [first, cursor] = reads(text, nullptr, count);
    const auto [rest, end] = reads(text.substr(at), &cursor, 100);
    ASSERT_EQ(rest.size(), expected.size() - count) << count;
    for (std::size_t i = 0; i < rest.size(); ++i) {
      EXPECT_TRUE(same(rest[i], expected[count + i])) << count << " " << i;
    }
    EXPECT_EQ(end.history_hash, last.history_hash);
    EXPECT_EQ(end.content_hash, last.content_hash);
  }
}
