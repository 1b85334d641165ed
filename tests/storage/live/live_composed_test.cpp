// SPDX-License-Identifier: Apache-2.0
/// @file
/// Live sources in mixtures and chains.
#include <unistd.h>

#include <fstream>

#include "storage/live/live_support.hpp"
#include "weir/storage/mix_source.hpp"

using namespace weir;
using namespace weir::storage;
using namespace weir::test;

TEST(LiveMix, AContextOfAPartBeginsAChunk) {
  const auto mixed = [] {
    std::vector<mix_part> parts(2);
    parts[0].source = says(
        "{\"hello\": 1}\n{\"text\": \"ab\"}\n{\"reset\": true}\n"
        "{\"text\": \"cd\"}\n{\"end\": true}\n");
    parts[0].exhausted = exhaustion::drop;
    parts[1].source = or_throw(open_memory_tokens(as_view(std::string("xyz"))));
    parts[1].exhausted = exhaustion::drop;
    return or_throw(mix_sources(std::move(parts), {}));
  };
  auto whole = stream_of(mixed(), 20);
  // The second document of the child comes behind that of the other part.
  EXPECT_EQ(chunks_of(*whole, 20), "ab|xyz| ^cd|");
  auto small = stream_of(mixed(), 2);
  EXPECT_EQ(chunks_of(*small, 2), "ab |x yz | ^cd |");
}

TEST(LiveChain, GoesOnBehindAChildAndResumesInEveryPart) {
  const temp_folder folder;
  write_text(folder / "lines",
             "{\"text\": \"abcdefg\"}\n{\"state\": 1}\n"
             "{\"text\": \"hij\"}\n{\"state\": 2}\n{\"end\": true}\n");
  const auto chained = [&] {
    std::vector<std::unique_ptr<token_source>> parts;
    parts.push_back(or_throw(open_memory_tokens(as_view(std::string("12345")))));
    parts.push_back(or_throw(open_child_source(child_of(folder / "lines"), {})));
    parts.push_back(or_throw(open_memory_tokens(as_view(std::string("678")))));
    return or_throw(chain_sources(std::move(parts)));
  };
  for (const std::size_t n : {1U, 3U, 4U, 50U}) {
    const auto whole = stream_of(chained(), n);
    const auto expected = read_all(*whole, n);
    ASSERT_EQ(text_of(concatenated(expected)), "12345|abcdefg|hij|678") << n;
    for (std::size_t count = 0; count <= expected.size(); ++count) {
      const auto first = stream_of(chained(), n);
      read_all(*first, n, 0, count);
      const auto cursor = or_throw(first->cursor(count));
      const auto again = stream_of(chained(), n);
      or_throw(again->restore(or_throw(decode_cursor(encode(cursor)))));
      const auto rest = read_all(*again, n);
      ASSERT_EQ(rest.size(), expected.size() - count) << n << " " << count;
      for (std::size_t i = 0; i < rest.size(); ++i) {
        EXPECT_TRUE(same(rest[i], expected[count + i])) << n << " " << count + i;
      }
      EXPECT_EQ(or_throw(again->cursor(9)), or_throw(whole->cursor(9))) << n;
    }
  }
}

TEST(LiveChain, ANextSourceIsNotAskedForWhileAPipeIsQuiet) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  live_options options;
  options.turns = true;
  std::vector<std::unique_ptr<token_source>> parts;
  parts.push_back(or_throw(open_pipe_source(ends[0], "stdin", options)));
  parts.push_back(or_throw(open_memory_tokens(as_view(std::string("xy")))));
  auto stream = stream_of(or_throw(chain_sources(std::move(parts))), 8);
  EXPECT_FALSE(or_throw(stream->ready(8, 0, 0)));
  ASSERT_EQ(::write(ends[1], "ab\n", 3), 3);
  EXPECT_TRUE(or_throw(stream->ready(8, 0, 1000)));
  EXPECT_EQ(chunks_of(*stream, 8, 1), "ab|");
  EXPECT_FALSE(or_throw(stream->ready(8, 0, 0)));
  ::close(ends[1]);
  EXPECT_EQ(chunks_of(*stream, 8), "|xy");
  ::close(ends[0]);
}
