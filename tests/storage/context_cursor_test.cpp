// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests cursors: their hashes, which are computed here again from the definitions, and
/// their encoding.
#include <gtest/gtest.h>

#include "storage/context_support.hpp"
#include "weir/base/hash.hpp"

using namespace weir;
using namespace weir::storage;
using namespace weir::test;

namespace {

/// Returns token ids as little-endian u32.
byte_vector little_endian(const tokens& ids) {
  byte_vector out(4 * ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    store_le(out.data() + 4 * i, ids[i]);
  }
  return out;
}

/// Computes the hash chain of a lane and its incomplete block from the definition.
byte_vector history_record(const tokens& text) {
  std::uint64_t chain = 0;
  std::size_t offset = 0;
  for (; offset + 64 <= text.size(); offset += 64) {
    byte_vector bytes(8);
    store_le(bytes.data(), chain);
    append(bytes,
           little_endian({text.begin() + static_cast<std::ptrdiff_t>(offset),
                          text.begin() + static_cast<std::ptrdiff_t>(offset + 64)}));
    chain = xxh3_64(bytes);
  }
  byte_vector out(16);
  store_le(out.data(), std::uint64_t{text.size()});
  store_le(out.data() + 8, chain);
  append(out,
         little_endian({text.begin() + static_cast<std::ptrdiff_t>(offset), text.end()}));
  return out;
}

/// Returns a cursor with two lanes, two eras and a generator state.
stream_cursor some_cursor() {
  stream_config c;
  c.chunk = 16;
  c.lanes = 2;
  c.frequencies = {1};
  const auto stream = open_stream(c, random_tokens(500, 21, 4));
  read_all(*stream, 16, 0, 13);
  or_throw(stream->reset());
  read_all(*stream, 16, 0, 3);
  stream_cursor cursor = or_throw(stream->cursor(77));
  cursor.rng = rng_state{1, 1, 5, 6, 7};
  return cursor;
}

}  // namespace

TEST(StreamCursor, ContentHashIsOverTheLast4096TokensAndHistoryOverAll) {
  const tokens corpus = random_tokens(20000, 20);
  for (const std::size_t n : {1U, 63U, 64U, 100U, 777U, 4096U}) {
    stream_config c;
    c.chunk = n;
    const auto stream = open_stream(c, corpus);
    tokens text;
    for (const auto& chunk : read_all(*stream, n, 0, 12)) {
      text.insert(text.end(), chunk.tokens.begin(), chunk.tokens.end());
      const auto cursor = or_throw(stream->cursor_at(chunk.mark, 3));
      const std::size_t count = std::min<std::size_t>(text.size(), 4096);
      const tokens last(text.end() - static_cast<std::ptrdiff_t>(count), text.end());
      EXPECT_EQ(cursor.dataset_index, text.size());
      EXPECT_EQ(cursor.chunk_id, chunk.chunk_id + 1);
      EXPECT_EQ(cursor.pulse_id, 3U);
      EXPECT_EQ(cursor.content_count, count);
      EXPECT_EQ(cursor.ring, last);
      EXPECT_EQ(cursor.content_hash, xxh3_64(little_endian(last)));
      EXPECT_EQ(cursor.history_hash, xxh3_64(history_record(text)));
      EXPECT_FALSE(cursor.rng);
    }
  }
}

TEST(StreamCursor, AMarkOfAnotherStreamIsRefusedByWhatIsWrongInIt) {
  stream_config c;
  c.chunk = 8;
  const auto stream = open_stream(c, random_tokens(100, 20));
  const chunk_mark good = read_all(*stream, 8, 0, 1).front().mark;
  chunk_mark lane = good, era = good;
  lane.lane = 3;
  era.era = 7;
  const auto text = [&](const chunk_mark& mark) {
    const auto cursor = stream->cursor_at(mark, 1);
    return cursor ? std::string() : cursor.error().text();
  };
  EXPECT_NE(text(lane).find("expected a lane below 1, found 3"), std::string::npos);
  EXPECT_NE(text(era).find("expected an era below 1, found 7"), std::string::npos);
}

TEST(StreamCursor, WithLanesTheWindowIsSharedAndHistoryCoversEveryLane) {
  const tokens corpus = random_tokens(12000, 22);
  stream_config c;
  c.chunk = 100;
  c.lanes = 4;
  const auto stream = open_stream(c, corpus);
  const auto lanes = by_lane(read_all(*stream, 100, 0, 90));
  const auto cursor = or_throw(stream->cursor(1));
  tokens window;
  byte_vector history;
  for (const auto& [lane, text] : lanes) {
    const std::size_t count = std::min<std::size_t>(text.size(), 1024);
    window.insert(window.end(), text.end() - static_cast<std::ptrdiff_t>(count),
                  text.end());
    append(history, history_record(text));
  }
  EXPECT_EQ(cursor.ring, window);
  EXPECT_EQ(cursor.content_hash, xxh3_64(little_endian(window)));
  EXPECT_EQ(cursor.history_hash, xxh3_64(history));
  EXPECT_EQ(cursor.dataset_index, 9000U);
}

TEST(StreamCursor, HistoryAndContentDoNotDependOnChunkSize) {
  const tokens corpus = random_tokens(12800, 23, 30);
  std::optional<stream_cursor> reference;
  for (const std::size_t n : {8U, 64U, 100U, 512U, 1024U}) {
    stream_config c;
    c.chunk = n;
    const auto stream = open_stream(c, corpus);
    while (stream->position() < 12800) {
      const std::uint64_t left = 12800 - stream->position();
      or_throw(stream->next_chunk(std::min<std::uint64_t>(n, left)));
    }
    const auto cursor = or_throw(stream->cursor(1));
    if (!reference) {
      reference = cursor;
    }
    EXPECT_EQ(cursor.history_hash, reference->history_hash) << n;
    EXPECT_EQ(cursor.content_hash, reference->content_hash) << n;
  }
}

// One stream has read everything; the other reads only as far as the marks that are
// committed. Their cursors must have equal bytes.
TEST(StreamCursor, BytesDoNotDependOnWhatWasReadAhead) {
  const tokens corpus = random_tokens(6000, 24, 10);
  stream_config c;
  c.chunk = 32;
  c.lanes = 3;
  const auto slow = open_stream(c, corpus);
  const auto ahead = open_stream(c, corpus);
  const auto all = read_all(*ahead, 32);
  std::vector<chunk_mark> committed;
  for (const auto& chunk : all) {
    const auto same_chunk = or_throw(slow->next_chunk(32));
    committed.push_back(chunk.mark);
    ASSERT_EQ(encode(or_throw(slow->cursor(9))),
              encode(or_throw(ahead->cursor_at(committed, 9))))
        << chunk.chunk_id;
  }
}

TEST(StreamCursor, SurvivesEncodingUnchanged) {
  const stream_cursor cursor = some_cursor();
  EXPECT_EQ(cursor.eras.size(), 2U);
  EXPECT_EQ(or_throw(decode_cursor(encode(cursor))), cursor);
  EXPECT_NE(or_throw(describe_source_state(cursor.source_state)).find("lane 1: memory:"),
            std::string::npos);
}

TEST(StreamCursor, EveryCutIsRefused) {
  const byte_vector bytes = encode(some_cursor());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto r = decode_cursor(bytes_view(bytes).first(size));
    ASSERT_FALSE(r) << size;
    ASSERT_TRUE(r.error().code() == errc::torn || r.error().code() == errc::corrupt)
        << size;
  }
  byte_vector longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_EQ(decode_cursor(longer).error().code(), errc::corrupt);
}

TEST(StreamCursor, NoFlippedByteCrashesTheReader) {
  // Checksums are the task of the checkpoint. Here, no damaged length may lead to a large
  // allocation or a read outside.
  const byte_vector bytes = encode(some_cursor());
  stream_config c;
  c.chunk = 16;
  c.lanes = 2;
  c.frequencies = {1};
  const auto stream = open_stream(c, random_tokens(500, 21, 4));
  std::size_t refused = 0;
  for (std::size_t offset = 0; offset < bytes.size(); ++offset) {
    for (const unsigned mask : {0x01U, 0x80U, 0xFFU}) {
      byte_vector flipped = bytes;
      flipped[offset] ^= static_cast<std::byte>(mask);
      const auto r = decode_cursor(flipped);
      refused += !r || !stream->restore(*r) ? 1U : 0U;
    }
  }
  EXPECT_EQ(refused,
            // A memory source has no generator state, so each restore fails.
            3 * bytes.size());
  byte_vector version = bytes;
  version[8] = std::byte{9};
  EXPECT_EQ(decode_cursor(version).error().code(), errc::unsupported_version);
}
