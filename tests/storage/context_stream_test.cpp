// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the chunks of a context stream: sizes, ends, boundaries, resets and lanes.
#include <gtest/gtest.h>

#include "storage/context_support.hpp"

using namespace weir;
using namespace weir::storage;
using namespace weir::test;

namespace {

/// Returns a configuration with one lane and one level.
stream_config config_of(std::size_t chunk, end_policy end = end_policy::stop) {
  stream_config c;
  c.chunk = chunk;
  c.end = end;
  c.frequencies = {1};
  return c;
}

}  // namespace

TEST(ContextStream, HandsOutTheSourceInOrderWithIdsPositionsAndLookahead) {
  const tokens corpus = random_tokens(1000, 1);
  const auto stream = open_stream(config_of(64), corpus);
  const auto chunks = read_all(*stream, 64);
  ASSERT_EQ(chunks.size(), 16U);
  EXPECT_EQ(concatenated(chunks), corpus);
  std::uint64_t position = 0;
  for (std::size_t g = 0; g < chunks.size(); ++g) {
    EXPECT_EQ(chunks[g].chunk_id, g);
    EXPECT_EQ(chunks[g].lane_position, position);
    position += chunks[g].tokens.size();
    if (position < corpus.size()) {
      EXPECT_EQ(chunks[g].lookahead, corpus[position]);
    } else {
      EXPECT_FALSE(chunks[g].lookahead);
    }
    EXPECT_FALSE(chunks[g].document_boundary);
  }
  EXPECT_EQ(stream->position(), 1000U);
}

TEST(ContextStream, ChunkSizesShareOneSequence) {
  const tokens corpus = random_tokens(5000, 2);
  for (const std::size_t n : {1U, 8U, 64U, 100U, 512U, 4999U, 5000U, 5001U}) {
    const auto stream = open_stream(config_of(64), corpus);
    EXPECT_EQ(concatenated(read_all(*stream, n)), corpus) << n;
  }
}

TEST(ContextStream, SequenceCrossesPagesOfTheReader) {
  const tokens corpus = random_tokens(100000, 3);
  const auto stream = open_stream(config_of(100), corpus);
  EXPECT_EQ(concatenated(read_all(*stream, 100)), corpus);
}

TEST(EndPolicy, StopGivesOneShortChunkThenNothingForEver) {
  constexpr std::size_t n = 16;
  for (const std::size_t size : {n - 1, n, n + 1, 2 * n - 1, 2 * n}) {
    const tokens corpus = random_tokens(size, size);
    const auto stream = open_stream(config_of(n), corpus);
    const auto chunks = read_all(*stream, n);
    EXPECT_EQ(chunks.size(), (size + n - 1) / n) << size;
    EXPECT_EQ(concatenated(chunks), corpus) << size;
    EXPECT_FALSE(chunks.back().lookahead) << size;
    for (int i = 0; i < 3; ++i) {
      EXPECT_FALSE(or_throw(stream->next_chunk(n))) << size;
    }
    EXPECT_EQ(stream->position(), size);
  }
}

TEST(EndPolicy, LoopFillsChunksAcrossTheWrapWithEndOfTextBetween) {
  constexpr std::size_t n = 16;
  for (const std::size_t size : {1UL, n - 1, n, n + 1, 2 * n - 1}) {
    const tokens corpus = random_tokens(size, size + 50);
    const auto stream = open_stream(config_of(n, end_policy::loop), corpus);
    tokens expected;
    while (expected.size() <= n * 20) {
      expected.insert(expected.end(), corpus.begin(), corpus.end());
      expected.push_back(end_of_text);
    }
    const auto chunks = read_all(*stream, n, 0, 20);
    ASSERT_EQ(chunks.size(), 20U);
    for (std::size_t g = 0; g < 20; ++g) {
      const auto first = expected.begin() + static_cast<std::ptrdiff_t>(g * n);
      EXPECT_EQ(chunks[g].tokens, tokens(first, first + n)) << size << " " << g;
      EXPECT_EQ(chunks[g].lookahead, *(first + n)) << size << " " << g;
    }
  }
}

TEST(EndPolicy, ChainGoesOnWithTheNextSourceThenStops) {
  const tokens first = random_tokens(37, 5);
  const tokens second = random_tokens(20, 6);
  std::vector<std::unique_ptr<token_source>> parts;
  parts.push_back(or_throw(open_memory_tokens(first)));
  parts.push_back(or_throw(open_memory_tokens(second)));
  auto stream = or_throw(context_stream::open(config_of(16, end_policy::chain),
                                              or_throw(chain_sources(std::move(parts)))));
  tokens expected = first;
  expected.push_back(end_of_text);
  expected.insert(expected.end(), second.begin(), second.end());
  const auto chunks = read_all(*stream, 16);
  EXPECT_EQ(concatenated(chunks), expected);
  EXPECT_EQ(chunks.back().tokens.size(), 58U % 16U);
  EXPECT_FALSE(or_throw(stream->next_chunk(16)));
}

TEST(Boundary, FlagIsSetForAnEndOfTextInsideOrDirectlyBefore) {
  const auto stream =
      open_stream(config_of(4), {1, 2, 256, 3, 4, 5, 6, 256, 7, 8, 9, 9, 9, 9});
  const auto chunks = read_all(*stream, 4);
  ASSERT_EQ(chunks.size(), 4U);
  EXPECT_EQ(chunks[0].boundaries, tokens{3});
  EXPECT_EQ(chunks[1].boundaries, tokens{4});
  EXPECT_EQ(chunks[2].boundaries, tokens{0});
  EXPECT_TRUE(chunks[0].document_boundary && chunks[1].document_boundary &&
              chunks[2].document_boundary);
  EXPECT_FALSE(chunks[3].document_boundary);
  EXPECT_TRUE(chunks[3].boundaries.empty());
}

TEST(Boundary, SplitEndsChunksWithTheirFirstEndOfText) {
  stream_config c = config_of(4);
  c.boundary = boundary_policy::split;
  const tokens corpus = {1, 2, 256, 3, 4, 5, 6, 256, 256, 8};
  const auto stream = open_stream(c, corpus);
  const auto chunks = read_all(*stream, 4);
  ASSERT_EQ(chunks.size(), 5U);
  EXPECT_EQ(chunks[0].tokens, (tokens{1, 2, 256}));
  EXPECT_EQ(chunks[0].lookahead, 3U);
  EXPECT_EQ(chunks[1].tokens, (tokens{3, 4, 5, 6}));
  EXPECT_EQ(chunks[1].boundaries, tokens{0});
  EXPECT_EQ(chunks[2].tokens, tokens{256});
  EXPECT_EQ(chunks[2].lookahead, 256U);
  EXPECT_EQ(chunks[3].tokens, tokens{256});
  EXPECT_EQ(chunks[4].tokens, tokens{8});
  EXPECT_EQ(concatenated(chunks), corpus);
}

TEST(Reset, LeavesOutTheRestOfTheDocumentAndNeverGoesBack) {
  const auto stream =
      open_stream(config_of(2), {1, 2, 3, 4, 256, 5, 6, 7, 256, 8, 9, 10});
  const auto before = *or_throw(stream->next_chunk(2));
  or_throw(stream->reset());
  or_throw(stream->reset());
  EXPECT_EQ(stream->position(), 2U);
  const auto after = *or_throw(stream->next_chunk(2));
  EXPECT_EQ(after.tokens, (tokens{5, 6}));
  EXPECT_TRUE(after.document_boundary);
  EXPECT_EQ(after.boundaries, tokens{0});
  EXPECT_EQ(after.chunk_id, before.chunk_id + 1);
  EXPECT_EQ(after.lane_position, 2U);
  EXPECT_FALSE(or_throw(stream->next_chunk(1))->document_boundary);
  or_throw(stream->reset());
  EXPECT_EQ(concatenated(read_all(*stream, 2)), (tokens{8, 9, 10}));
  or_throw(stream->reset());
  EXPECT_FALSE(or_throw(stream->next_chunk(2)));
}

TEST(Reset, BeforeADocumentLosesNothingAndUnderLoopBeginsAgain) {
  const auto stream = open_stream(config_of(3, end_policy::loop), {1, 2, 256, 3, 4});
  EXPECT_EQ(or_throw(stream->next_chunk(3))->tokens, (tokens{1, 2, 256}));
  or_throw(stream->reset());
  EXPECT_EQ(or_throw(stream->next_chunk(1))->tokens, tokens{3});
  or_throw(stream->reset());
  const auto again = *or_throw(stream->next_chunk(3));
  EXPECT_EQ(again.tokens, (tokens{1, 2, 256}));
  EXPECT_TRUE(again.document_boundary);
}

TEST(Lanes, RoundRobinGivesRankZeroTheEvenChunks) {
  const tokens corpus = random_tokens(64 * 9 + 10, 9);
  stream_config c = config_of(64);
  c.lanes = 2;
  c.ranks = 2;
  const auto stream = open_stream(c, corpus);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    std::uint64_t expected = rank;
    for (const auto& chunk : read_all(*stream, 64, rank)) {
      EXPECT_EQ(chunk.chunk_id, expected);
      const std::size_t first = expected * 64;
      for (std::size_t i = 0; i < chunk.tokens.size(); ++i) {
        ASSERT_EQ(chunk.tokens[i], corpus[first + i]);
      }
      // The target of the last token is the next token of the source, although another
      // lane reads it.
      if (first + 64 < corpus.size()) {
        EXPECT_EQ(chunk.lookahead, corpus[first + 64]);
      }
      expected += 2;
    }
  }
  EXPECT_EQ(stream->position(), corpus.size());
}

TEST(Lanes, ALaneReadsLaneBlockChunksInARow) {
  const tokens corpus = random_tokens(4000, 10);
  stream_config c = config_of(8);
  c.lanes = 3;
  c.lane_block = 5;
  const auto lanes = by_lane(read_all(*open_stream(c, corpus), 8));
  std::map<std::uint32_t, tokens> expected;
  for (std::size_t i = 0; i < corpus.size(); ++i) {
    expected[static_cast<std::uint32_t>(i / 40 % 3)].push_back(corpus[i]);
  }
  EXPECT_EQ(lanes, expected);
}

TEST(Lanes, ChunksOfALaneAreTheSameForEveryNumberOfRanks) {
  const tokens corpus = random_tokens(3001, 11, 20);
  for (const std::uint32_t block : {1U, 3U, 1000U}) {
    for (const auto boundary : {boundary_policy::never, boundary_policy::split}) {
      std::map<std::uint32_t, std::vector<token_chunk>> reference;
      for (const std::uint32_t ranks : {1U, 2U, 3U, 4U}) {
        stream_config c = config_of(16);
        c.lanes = 4;
        c.lane_block = block;
        c.ranks = ranks;
        c.boundary = boundary;
        const auto stream = open_stream(c, corpus);
        std::map<std::uint32_t, std::vector<token_chunk>> lanes;
        for (std::uint32_t rank = ranks; rank-- > 0;) {
          for (auto& chunk : read_all(*stream, 16, rank)) {
            lanes[chunk.lane].push_back(std::move(chunk));
          }
        }
        if (ranks == 1) {
          reference = std::move(lanes);
          continue;
        }
        ASSERT_EQ(lanes.size(), reference.size());
        for (const auto& [lane, chunks] : lanes) {
          ASSERT_EQ(chunks.size(), reference[lane].size());
          for (std::size_t i = 0; i < chunks.size(); ++i) {
            ASSERT_TRUE(same(chunks[i], reference[lane][i]))
                << block << " " << lane << " " << i;
          }
        }
      }
    }
  }
}

TEST(Lanes, EveryTokenIsHandedOutOnceWhateverTheSizesAskedFor) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    const philox random(seed, 1);
    const tokens corpus = random_tokens(500 + random.below(0, 3000), seed);
    stream_config c = config_of(1 + random.below(1, 40));
    c.lanes = static_cast<std::uint32_t>(1 + random.below(2, 5));
    c.lane_block = static_cast<std::uint32_t>(1 + random.below(3, 4));
    const auto stream = open_stream(c, corpus);
    std::map<std::uint32_t, tokens> lanes;
    for (std::uint64_t i = 10;; ++i) {
      auto chunk = or_throw(stream->next_chunk(1 + random.below(i, 50)));
      if (!chunk) {
        break;
      }
      auto& lane = lanes[chunk->lane];
      lane.insert(lane.end(), chunk->tokens.begin(), chunk->tokens.end());
    }
    std::map<std::uint32_t, tokens> expected;
    const std::size_t block = c.chunk * c.lane_block;
    for (std::size_t i = 0; i < corpus.size(); ++i) {
      expected[static_cast<std::uint32_t>(i / block % c.lanes)].push_back(corpus[i]);
    }
    ASSERT_EQ(lanes, expected);
  }
}

TEST(ContextStream, RefusesImpossibleArguments) {
  const auto code = [](stream_config c) {
    const auto r = context_stream::open(c, or_throw(open_memory_tokens(tokens{1, 2, 3})));
    return r ? errc::internal : r.error().code();
  };
  stream_config c = config_of(0);
  EXPECT_EQ(code(c), errc::invalid_argument);
  c = config_of(4);
  c.frequencies = {8, 64};
  EXPECT_EQ(code(c), errc::invalid_argument);
  c = config_of(4);
  c.lanes = 0;
  EXPECT_EQ(code(c), errc::invalid_argument);
  c = config_of(4);
  c.ranks = 2;
  EXPECT_EQ(code(c), errc::invalid_argument);
  const auto stream = open_stream(config_of(4), {1, 2, 3});
  EXPECT_EQ(stream->next_chunk(0).error().code(), errc::invalid_argument);
  EXPECT_EQ(stream->next_chunk(1, 1).error().code(), errc::invalid_argument);
  EXPECT_EQ(stream->next_chunk(std::size_t{1} << 40).error().code(),
            errc::invalid_argument);
}

TEST(ContextStream, WarnsOfLevelsThatDoNotFireInEveryChunk) {
  stream_config c = config_of(64);
  c.frequencies = {1, 8, 64, 512};
  EXPECT_NE(open_stream(c, {1})->warning(), "");
  c.chunk = 512;
  EXPECT_EQ(open_stream(c, {1})->warning(), "");
}

namespace {
const std::vector<std::uint64_t> periods = {4, 8, 64, 512};
}

TEST(ChunkSize, BelowTheFastestPeriodIsAnError) {
  const auto r = check_chunk_size(3, periods);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::invalid_argument);
  EXPECT_NE(r.error().text().find("period 4"), std::string::npos);
  EXPECT_NE(r.error().text().find("found 3"), std::string::npos);
  EXPECT_TRUE(check_chunk_size(4, periods));
  EXPECT_FALSE(check_chunk_size(0, {}));
}

TEST(ChunkSize, BelowTheSlowestPeriodIsAWarningThatNamesTheLevels) {
  const auto text = or_throw(check_chunk_size(64, periods));
  EXPECT_NE(text.find("3 (period 512)"), std::string::npos) << text;
  EXPECT_EQ(text.find("2 (period 64)"), std::string::npos) << text;
}

TEST(ChunkSize, MultiplesOfTheSlowestPeriodAreSilentAndOthersWarn) {
  EXPECT_EQ(or_throw(check_chunk_size(512, periods)), "");
  EXPECT_EQ(or_throw(check_chunk_size(1024, periods)), "");
  EXPECT_NE(or_throw(check_chunk_size(600, periods)), "");
}
