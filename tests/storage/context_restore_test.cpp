// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests resuming a stream at every place, and every reason to refuse a cursor.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "storage/context_support.hpp"
#include "weir/storage/live_source.hpp"

using namespace weir;
using namespace weir::storage;
using namespace weir::test;

namespace {

/// A configuration of a stream and its name in messages.
struct variant {
  std::string name;
  stream_config config;
};

/// Returns all combinations of lanes, lane blocks, ends and boundary policies.
std::vector<variant> variants() {
  std::vector<variant> out;
  for (const std::uint32_t lanes : {1U, 3U}) {
    for (const std::uint32_t block : {1U, 4U}) {
      for (const auto end : {end_policy::stop, end_policy::loop}) {
        for (const auto boundary : {boundary_policy::never, boundary_policy::split}) {
          stream_config c;
          c.chunk = 24;
          c.lanes = lanes;
          c.lane_block = block;
          c.end = end;
          c.boundary = boundary;
          c.frequencies = {1};
          out.push_back({"lanes " + std::to_string(lanes) + " block " +
                             std::to_string(block) +
                             (end == end_policy::loop ? " loop" : " stop") +
                             (boundary == boundary_policy::split ? " split" : ""),
                         c});
        }
      }
    }
  }
  return out;
}

/// Restores a cursor from its bytes into a new stream, as a process that resumes does.
std::unique_ptr<context_stream> resumed(const stream_config& config, const tokens& corpus,
                                        const stream_cursor& cursor) {
  auto stream = open_stream(config, corpus);
  or_throw(stream->restore(or_throw(decode_cursor(encode(cursor)))));
  return stream;
}

/// Returns the code with which a restore fails, or `internal` if it succeeds.
errc restored(context_stream& stream, const stream_cursor& cursor) {
  const auto r = stream.restore(cursor);
  return r ? errc::internal : r.error().code();
}

constexpr std::size_t max_chunks = 60;

}  // namespace

TEST(Restore, ResumingAtEveryChunkOnceTwiceAndThriceEqualsTheUninterruptedStream) {
  const tokens corpus = random_tokens(700, 30, 12);
  for (const auto& [name, config] : variants()) {
    SCOPED_TRACE(name);
    const auto reference = open_stream(config, corpus);
    std::vector<token_chunk> chunks;
    std::vector<byte_vector> cursors;
    while (chunks.size() < max_chunks) {
      auto chunk = or_throw(reference->next_chunk(24));
      if (!chunk) {
        break;
      }
      chunks.push_back(std::move(*chunk));
      cursors.push_back(encode(or_throw(reference->cursor(chunks.size()))));
    }
    for (std::size_t k = 0; k < chunks.size(); ++k) {
      auto stream = resumed(config, corpus, or_throw(decode_cursor(cursors[k])));
      // The second resume follows one chunk later, the third one three chunks later.
      for (std::size_t i = k + 1; i < chunks.size(); ++i) {
        const auto chunk = or_throw(stream->next_chunk(24));
        ASSERT_TRUE(chunk && same(*chunk, chunks[i])) << "from " << k << " at " << i;
        const auto cursor = or_throw(stream->cursor(i + 1));
        ASSERT_EQ(encode(cursor), cursors[i]) << "from " << k << " at " << i;
        if (i == k + 1 || i == k + 3) {
          stream = resumed(config, corpus, cursor);
        }
      }
      if (config.end == end_policy::stop) {
        ASSERT_FALSE(or_throw(stream->next_chunk(24))) << k;
      }
    }
  }
}

// Four ranks read different numbers of chunks. After a restore any number of ranks must
// read exactly the rest of every lane.
TEST(Restore, RanksMayChangeAndTheFrontierNeedNotBeEven) {
  const tokens corpus = random_tokens(3000, 31, 9);
  stream_config c;
  c.chunk = 16;
  c.lanes = 4;
  c.ranks = 4;
  c.frequencies = {1};
  const auto first = open_stream(c, corpus);
  std::map<std::uint32_t, tokens> lanes;
  for (const auto& [rank, count] :
       std::map<std::uint32_t, std::size_t>{{0, 3}, {2, 7}, {3, 1}}) {
    for (const auto& chunk : read_all(*first, 16, rank, count)) {
      auto& lane = lanes[chunk.lane];
      lane.insert(lane.end(), chunk.tokens.begin(), chunk.tokens.end());
    }
  }
  const auto cursor = or_throw(first->cursor(5));
  const auto expected = by_lane(read_all(*open_stream(
                                             [&] {
                                               auto d = c;
                                               d.ranks = 1;
                                               return d;
                                             }(),
                                             corpus),
                                         16));
  for (const std::uint32_t ranks : {1U, 2U, 3U, 4U}) {
    c.ranks = ranks;
    const auto second = resumed(c, corpus, cursor);
    auto all = lanes;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      for (const auto& chunk : read_all(*second, 16, rank)) {
        auto& lane = all[chunk.lane];
        lane.insert(lane.end(), chunk.tokens.begin(), chunk.tokens.end());
      }
    }
    EXPECT_EQ(all, expected) << ranks;
  }
}

TEST(Restore, RandomPointsOfALongStreamEqualTheUninterruptedOne) {
  constexpr std::uint64_t seed = 33;
  SCOPED_TRACE(seed);
  const tokens corpus = random_tokens(50000, seed, 40);
  const philox random(seed, 2);
  stream_config c;
  c.end = end_policy::loop;
  for (std::uint64_t trial = 0; trial < 100; ++trial) {
    const auto stream = open_stream(c, corpus);
    for (std::uint64_t i = random.below(4 * trial, 40); i-- > 0;) {
      or_throw(stream->next_chunk(1 + random.below(4 * trial + 1 + 1000 * i, 5000)));
    }
    const auto again = resumed(c, corpus, or_throw(stream->cursor(1)));
    for (int i = 0; i < 5; ++i) {
      const auto a = or_throw(stream->next_chunk(3000));
      const auto b = or_throw(again->next_chunk(3000));
      ASSERT_TRUE(same(*a, *b)) << trial;
    }
    ASSERT_EQ(or_throw(stream->cursor(2)), or_throw(again->cursor(2))) << trial;
  }
}

// Random configurations. One stream runs through; the other is replaced again and again
// by a stream that is restored from its cursor.
TEST(Restore, AnyMixOfSizesRanksAndResetsContinuesTheSame) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(seed);
    const philox random(seed, 5);
    const tokens corpus = random_tokens(200 + random.below(0, 1500), seed, 15);
    stream_config c;
    c.chunk = 1 + random.below(1, 30);
    c.lanes = static_cast<std::uint32_t>(1 + random.below(2, 4));
    c.lane_block = static_cast<std::uint32_t>(1 + random.below(3, 3));
    c.ranks = static_cast<std::uint32_t>(1 + random.below(4, c.lanes));
    c.end = random.below(5, 2) == 0 ? end_policy::loop : end_policy::stop;
    c.boundary =
        random.below(6, 2) == 0 ? boundary_policy::split : boundary_policy::never;
    c.frequencies = {1};
    const auto whole = open_stream(c, corpus);
    auto parts = open_stream(c, corpus);
    for (std::uint64_t step = 0; step < 60; ++step) {
      const auto draw = [&](std::uint64_t i, std::uint64_t bound) {
        return random.below(100 + step * 10 + i, bound);
      };
      if (draw(0, 8) == 0) {
        or_throw(whole->reset());
        or_throw(parts->reset());
      }
      const std::size_t n = 1 + draw(1, 40);
      const auto rank = static_cast<std::uint32_t>(draw(2, c.ranks));
      const auto a = or_throw(whole->next_chunk(n, rank));
      const auto b = or_throw(parts->next_chunk(n, rank));
      ASSERT_EQ(a.has_value(), b.has_value()) << step;
      ASSERT_TRUE(!a || same(*a, *b)) << step;
      if (draw(3, 4) == 0) {
        const auto cursor = or_throw(parts->cursor(step));
        ASSERT_EQ(encode(cursor), encode(or_throw(whole->cursor(step)))) << step;
        parts = resumed(c, corpus, cursor);
      }
    }
  }
}

// Cursors are made behind a reset, at a mark before it, and at a mark inside a document.
// Each must continue with the right document.
TEST(Restore, AResetBeforeTheCursorIsPartOfIt) {
  const tokens corpus = {1, 2, 3, 4, 256, 5, 6, 7, 256, 8, 9, 10, 11, 12};
  stream_config c;
  c.chunk = 2;
  c.frequencies = {1};
  const auto stream = open_stream(c, corpus);
  const auto first = *or_throw(stream->next_chunk(2));
  or_throw(stream->reset());
  const auto after_reset = resumed(c, corpus, or_throw(stream->cursor(1)));
  EXPECT_EQ(or_throw(after_reset->next_chunk(2))->boundaries, tokens{0});
  EXPECT_EQ(concatenated(read_all(*after_reset, 2)), (tokens{7, 256, 8, 9, 10, 11, 12}));
  // A mark that was made before the reset must not contain it.
  const auto before_reset =
      resumed(c, corpus, or_throw(stream->cursor_at(first.mark, 1)));
  EXPECT_EQ(concatenated(read_all(*before_reset, 2, 0, 2)), (tokens{3, 4, 256, 5}));
  const auto second = *or_throw(stream->next_chunk(3));
  const auto inside = resumed(c, corpus, or_throw(stream->cursor_at(second.mark, 1)));
  EXPECT_EQ(concatenated(read_all(*inside, 2)), (tokens{256, 8, 9, 10, 11, 12}));
}

TEST(Restore, WithOneLaneAnotherChunkSizeBeginsAnEra) {
  const tokens corpus = random_tokens(1000, 34);
  stream_config c;
  c.chunk = 64;
  const auto stream = open_stream(c, corpus);
  read_all(*stream, 64, 0, 5);
  c.chunk = 100;
  auto wider = resumed(c, corpus, or_throw(stream->cursor(5)));
  EXPECT_EQ(concatenated(read_all(*wider, 100, 0, 2)),
            tokens(corpus.begin() + 320, corpus.begin() + 520));
  const auto cursor = or_throw(wider->cursor(7));
  ASSERT_EQ(cursor.eras.size(), 2U);
  EXPECT_EQ(cursor.eras[1].first_token, 320U);
  EXPECT_EQ(cursor.eras[1].first_chunk, 5U);
  EXPECT_EQ(cursor.eras[1].chunk, 100U);
  c.chunk = 64;
  EXPECT_EQ(concatenated(read_all(*resumed(c, corpus, cursor), 64)),
            tokens(corpus.begin() + 520, corpus.end()));
}

// A pipe cannot go back, so a resumed stream expects that the pipe starts at the position
// of the cursor.
TEST(Restore, APipeContinuesBehindTheBytesThatWereRead) {
  int ends[2];
  const auto pipe_with = [&](std::string_view text) {
    EXPECT_EQ(::pipe(ends), 0);
    EXPECT_EQ(::write(ends[1], text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
    ::close(ends[1]);
    stream_config c;
    c.chunk = 4;
    c.frequencies = {1};
    return or_throw(context_stream::open(c, or_throw(open_pipe_source(ends[0]))));
  };
  const auto whole = pipe_with("abcdefghijkl");
  const auto chunks = read_all(*whole, 4);
  const auto cursor = or_throw(whole->cursor_at(chunks[1].mark, 2));
  const auto end = or_throw(whole->cursor(3));
  ::close(ends[0]);
  const auto rest = pipe_with("ijkl");
  or_throw(rest->restore(or_throw(decode_cursor(encode(cursor)))));
  const auto chunk = or_throw(rest->next_chunk(4));
  EXPECT_TRUE(same(*chunk, chunks[2]));
  EXPECT_EQ(encode(or_throw(rest->cursor(3))), encode(end));
  ::close(ends[0]);
}

/// A corpus, and a cursor behind its first 6400 tokens.
class RestoreError : public ::testing::Test {
 protected:
  RestoreError() : corpus_(random_tokens(9000, 40, 5)) {
    config_.chunk = 64;
    const auto stream = open_stream(config_, corpus_);
    read_all(*stream, 64, 0, 100);
    cursor_ = or_throw(stream->cursor(100));
  }
  tokens corpus_;
  stream_config config_;
  stream_cursor cursor_;
};

TEST_F(RestoreError, LaneMismatch) {
  config_.lanes = 2;
  const auto stream = open_stream(config_, corpus_);
  EXPECT_EQ(restored(*stream, cursor_), errc::lane_mismatch);
  const auto two = or_throw(stream->cursor(0));
  config_.lane_block = 2;
  EXPECT_EQ(restored(*open_stream(config_, corpus_), two), errc::lane_mismatch);
}

TEST_F(RestoreError, ConfigMismatchWhenLanesDependOnTheChunkSize) {
  config_.lanes = 2;
  const auto stream = open_stream(config_, corpus_);
  const auto two = or_throw(stream->cursor(0));
  config_.chunk = 32;
  EXPECT_EQ(restored(*open_stream(config_, corpus_), two), errc::config_mismatch);
}

TEST_F(RestoreError, PositionOutOfBounds) {
  corpus_.resize(6000);
  const auto stream = open_stream(config_, corpus_);
  EXPECT_EQ(restored(*stream, cursor_), errc::position_out_of_bounds);
  // The stream that refused the cursor must continue as before.
  EXPECT_EQ(concatenated(read_all(*stream, 64)), corpus_);
}

TEST_F(RestoreError, HistoryMismatchNamesTheFirstTokenThatDiffers) {
  for (const std::size_t index : {6399U, 6000U, 6400U - 4096U}) {
    tokens changed = corpus_;
    changed[index] = (changed[index] + 1) % 256;
    changed[6399] = (changed[6399] + 1) % 256;
    const auto r = open_stream(config_, changed)->restore(cursor_);
    ASSERT_FALSE(r);
    EXPECT_EQ(r.error().code(), errc::history_mismatch);
    EXPECT_EQ(r.error().location(), "memory:" + std::to_string(index));
    // Without the remembered tokens only their hash can show the difference.
    stream_cursor bare = cursor_;
    bare.ring.clear();
    EXPECT_EQ(restored(*open_stream(config_, changed), bare), errc::history_mismatch);
    EXPECT_TRUE(open_stream(config_, corpus_)->restore(bare));
  }
}

TEST_F(RestoreError, HistoryMismatchOutsideTheWindowNamesTheStretch) {
  for (const std::size_t index : {0U, 100U, 2000U, 6400U, 8999U}) {
    tokens changed = corpus_;
    changed[index] = (changed[index] + 1) % 256;
    const auto r = open_stream(config_, changed)->restore(cursor_);
    ASSERT_FALSE(r) << index;
    EXPECT_EQ(r.error().code(), errc::history_mismatch);
    EXPECT_EQ(r.error().location(), "memory:" + std::to_string(index / 4096 * 4096));
  }
}

TEST_F(RestoreError, HistoryMismatchForFilesNamesFileAndOffset) {
  const temp_folder folder;
  write_text(folder / "a", std::string(3000, 'a'));
  write_text(folder / "b", std::string(3000, 'b'));
  const std::vector<std::string> paths = {folder / "a", folder / "b"};
  const auto open = [&] {
    return or_throw(context_stream::open(
        config_, or_throw(open_file_set(posix_file_system(), paths))));
  };
  const auto stream = open();
  read_all(*stream, 64, 0, 60);
  const auto cursor = or_throw(stream->cursor(60));
  EXPECT_NE(or_throw(describe_source_state(cursor.source_state)).find("b:839"),
            std::string::npos);
  write_text(folder / "b", std::string(500, 'b') + "X" + std::string(2499, 'b'));
  const auto changed = open()->restore(cursor);
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code(), errc::history_mismatch);
  EXPECT_EQ(changed.error().location(), folder / "b" + ":500");
  write_text(folder / "b", std::string(3001, 'b'));
  const auto longer = open()->restore(cursor);
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().code(), errc::history_mismatch);
  EXPECT_EQ(longer.error().location(), folder / "b" + ":0");
  write_text(folder / "b", std::string(3000, 'b'));
  EXPECT_TRUE(open()->restore(cursor));
  std::filesystem::rename(folder / "b", folder / "c");
  const auto moved = or_throw(context_stream::open(
      config_,
      or_throw(open_file_set(posix_file_system(), {folder / "a", folder / "c"}))));
  EXPECT_TRUE(moved->restore(cursor));  // the content decides, not the name
}

TEST_F(RestoreError, SourceUnavailable) {
  const temp_folder folder;
  write_text(folder / "a", std::string(9000, 'a'));
  auto& fs = posix_file_system();
  auto first = or_throw(
      context_stream::open(config_, or_throw(open_file_source(fs, folder / "a"))));
  read_all(*first, 64, 0, 100);
  const auto cursor = or_throw(first->cursor(100));
  // The source is opened without a digest, so that the restore makes the first read.
  auto second = or_throw(context_stream::open(
      config_, or_throw(open_file_source(fs, folder / "a", {.digest_limit = 0}))));
  std::filesystem::remove(folder / "a");
  EXPECT_EQ(restored(*second, cursor), errc::source_unavailable);
}

TEST_F(RestoreError, CorruptWhenTheCursorContradictsItself) {
  const auto damage = [&](auto change) {
    stream_cursor c = cursor_;
    change(c);
    return restored(*open_stream(config_, corpus_), c);
  };
  EXPECT_EQ(damage([](auto& c) { c.dataset_index += 1; }), errc::corrupt);
  EXPECT_EQ(damage([](auto& c) { c.chunk_id += 1; }), errc::corrupt);
  EXPECT_EQ(damage([](auto& c) { c.lanes.clear(); }), errc::corrupt);
  EXPECT_EQ(damage([](auto& c) { c.eras.clear(); }), errc::corrupt);
  EXPECT_EQ(damage([](auto& c) { c.eras[0].lane_positions[0] = 9999999; }),
            errc::corrupt);
  EXPECT_EQ(damage([](auto& c) { c.eras[0].chunk = 0; }), errc::corrupt);
  EXPECT_EQ(damage([](auto& c) { c.ring.pop_back(); }), errc::corrupt);
  EXPECT_EQ(damage([](auto& c) { c.lanes[0].history += 1; }), errc::history_mismatch);
  EXPECT_EQ(damage([](auto& c) { c.content_hash += 1; }), errc::history_mismatch);
  EXPECT_EQ(damage([](auto& c) { c.eras[0].source_offset = 1; }), errc::history_mismatch);
  EXPECT_EQ(damage([](auto& c) { c.source_state.pop_back(); }), errc::torn);
  // The digests are the last numbers of a source state, behind their number.
  const std::size_t digests = (corpus_.size() + 4095) / 4096;
  const auto with_digests = [&](std::size_t count) {
    return damage([&](auto& c) {
      byte_vector& bytes = c.source_state;
      std::byte* const stored = bytes.data() + bytes.size() - 8 * digests - 4;
      ASSERT_EQ(load_le<std::uint32_t>(stored), digests);
      store_le(stored, static_cast<std::uint32_t>(count));
      bytes.resize(bytes.size() - 8 * digests + 8 * count);
    });
  };
  EXPECT_EQ(with_digests(digests), errc::internal);
  EXPECT_EQ(with_digests(digests + 1), errc::corrupt);
  EXPECT_EQ(with_digests(digests - 1), errc::corrupt);
}

TEST_F(RestoreError, RoundsOfMoreThan64BitsAreComputed) {
  config_.lanes = 4;
  const auto code_after = [&](std::size_t chunks) {
    const auto stream = open_stream(config_, corpus_);
    read_all(*stream, 64, 0, chunks);
    stream_cursor c = or_throw(stream->cursor(chunks));
    // 2^62 tokens of each of the 4 lanes are a round.
    c.eras[0].chunk = std::uint64_t{1} << 31;
    c.eras[0].lane_block = std::uint64_t{1} << 31;
    const auto found = open_stream(config_, corpus_)->restore(c, {.geometry = true});
    return found ? errc::internal : found.error().code();
  };
  EXPECT_EQ(code_after(0), errc::internal);
  EXPECT_EQ(code_after(1), errc::internal);
  // The second lane has read although the block of the first one is not complete.
  EXPECT_EQ(code_after(2), errc::config_mismatch);
}

namespace {

/// A source that delivers blocks of 8 tokens in an order that Philox determines, as a
/// shuffling source does.
class shuffled_source final : public token_source {
 public:
  shuffled_source(tokens all, std::uint64_t key) : all_(std::move(all)), key_(key) {
    identity_.tokens = all_.size();
  }
  std::uint64_t size() const noexcept override { return all_.size(); }
  result<std::size_t> read(std::uint64_t index, std::span<std::uint32_t> to) override {
    std::size_t done = 0;
    for (; done < to.size() && index + done < all_.size(); ++done) {
      const std::uint64_t i = index + done;
      to[done] = all_[philox(key_, 0).below(i / 8, all_.size() / 8) * 8 + i % 8];
    }
    return done;
  }
  std::string place_text(std::uint64_t index) const override {
    return std::to_string(index);
  }
  place place_of(std::uint64_t index) const override { return {0, index}; }
  const source_identity& identity() const noexcept override { return identity_; }
  result<std::uint64_t> next_document(std::uint64_t) override { return size(); }
  std::optional<rng_state> rng() const override { return rng_state{1, 1, key_, 0, 0}; }

 private:
  tokens all_;
  std::uint64_t key_;
  source_identity identity_;
};

}  // namespace

TEST_F(RestoreError, RngMismatch) {
  corpus_.resize(8000);
  const auto open = [&](std::uint64_t key) {
    return or_throw(
        context_stream::open(config_, std::make_unique<shuffled_source>(corpus_, key)));
  };
  const auto stream = open(5);
  read_all(*stream, 64, 0, 90);
  const auto cursor = or_throw(stream->cursor(1));
  ASSERT_TRUE(cursor.rng);
  const auto again = open(5);
  or_throw(again->restore(or_throw(decode_cursor(encode(cursor)))));
  EXPECT_EQ(concatenated(read_all(*again, 64)), concatenated(read_all(*stream, 64)));
  EXPECT_EQ(restored(*open(6), cursor), errc::rng_mismatch);
  stream_cursor none = cursor;
  none.rng.reset();
  EXPECT_EQ(restored(*open(5), none), errc::rng_mismatch);
  cursor_.rng = rng_state{};
  EXPECT_EQ(restored(*open_stream(config_, corpus_), cursor_), errc::rng_mismatch);
}
