// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the states of sources in cursors: a source that cannot go on without its state,
/// the indices for which a cursor asks, and cursors without states.
#include <gtest/gtest.h>

#include <algorithm>

#include "storage/context_support.hpp"
#include "weir/base/hash.hpp"

using namespace weir;
using namespace weir::storage;
using namespace weir::test;

namespace {

/// A source that cannot seek. Each token is computed from a running hash, so that the
/// index alone does not tell how the sequence goes on.
class running_source final : public token_source {
 public:
  explicit running_source(std::size_t state_bytes = 8) : state_bytes_(state_bytes) {
    identity_.list_digest = 1;
  }
  std::uint64_t size() const noexcept override { return unknown_size; }
  bool seekable() const noexcept override { return false; }
  result<std::size_t> read(std::uint64_t index, std::span<std::uint32_t> to) override {
    for (std::size_t i = 0; i < to.size(); ++i) {
      while (first_ + hashes_.size() <= index + i + 1) {
        byte_vector last(8);
        store_le(last.data(), hashes_.back());
        hashes_.push_back(xxh3_64(last));
        known_.push_back(static_cast<std::uint32_t>(hashes_.back() % 256));
      }
      to[i] = known_.at(index + i - known_first_);
    }
    return to.size();
  }
  std::string place_text(std::uint64_t index) const override {
    return "running:" + std::to_string(index);
  }
  place place_of(std::uint64_t index) const override { return {0, index}; }
  const source_identity& identity() const noexcept override { return identity_; }
  result<std::uint64_t> next_document(std::uint64_t index) override { return index; }
  result<void> continue_at(std::uint64_t index,
                           std::span<const std::uint32_t> before) override {
    known_.assign(before.begin(), before.end());
    known_first_ = index - before.size();
    return index == first_ ? result<void>()
                           : error(errc::history_mismatch, "the state is missing");
  }
  result<byte_vector> state(std::uint64_t index) const override {
    byte_vector out(state_bytes_);
    store_le(out.data(), hashes_.at(index - first_));
    return out;
  }
  result<void> restore_state(std::uint64_t index, bytes_view state) override {
    first_ = index;
    hashes_ = {load_le<std::uint64_t>(state.data())};
    return {};
  }

 private:
  std::size_t state_bytes_;
  std::vector<std::uint64_t> hashes_ = {7};
  std::uint64_t first_ = 0;  ///< index of the token that follows `hashes_.front()`
  tokens known_;
  std::uint64_t known_first_ = 0;
  source_identity identity_;
};

/// Tokens in memory whose state is the index. It notes the states that it accepts.
class noting_source final : public token_source {
 public:
  noting_source(tokens all, std::vector<std::uint64_t>& accepted)
      : all_(or_throw(open_memory_tokens(std::move(all)))), accepted_(accepted) {}
  std::uint64_t size() const noexcept override { return all_->size(); }
  result<std::size_t> read(std::uint64_t index, std::span<std::uint32_t> to) override {
    return all_->read(index, to);
  }
  std::string place_text(std::uint64_t index) const override {
    return all_->place_text(index);
  }
  place place_of(std::uint64_t index) const override { return all_->place_of(index); }
  const source_identity& identity() const noexcept override { return all_->identity(); }
  result<std::uint64_t> next_document(std::uint64_t index) override {
    return all_->next_document(index);
  }
  result<byte_vector> state(std::uint64_t index) const override {
    byte_vector out(8);
    store_le(out.data(), index);
    return out;
  }
  result<void> restore_state(std::uint64_t index, bytes_view state) override {
    EXPECT_EQ(load_le<std::uint64_t>(state.data()), index);
    accepted_.push_back(index);
    return {};
  }

 private:
  std::unique_ptr<token_source> all_;
  std::vector<std::uint64_t>& accepted_;
};

/// Opens a stream over a source.
std::unique_ptr<context_stream> over(const stream_config& config,
                                     std::unique_ptr<token_source> source) {
  return or_throw(context_stream::open(config, std::move(source)));
}

/// Returns a configuration with chunks of 50 tokens.
stream_config chunks_of_50() {
  stream_config c;
  c.chunk = 50;
  c.frequencies = {1};
  return c;
}

}  // namespace

TEST(SourceStates, ASourceThatNeedsItsStateResumesAtEveryChunkOnceAndTwice) {
  const auto reference = over(chunks_of_50(), std::make_unique<running_source>());
  std::vector<token_chunk> chunks;
  std::vector<byte_vector> cursors;
  for (std::size_t i = 0; i < 100; ++i) {
    chunks.push_back(or_throw(reference->next_chunk(50)).value());
  }
  for (const token_chunk& chunk : chunks) {
    // All chunks were read ahead; the state must be that behind the committed one.
    cursors.push_back(encode(or_throw(reference->cursor_at(chunk.mark, 1))));
  }
  for (std::size_t k = 0; k < chunks.size(); ++k) {
    byte_vector cursor = cursors[k];
    for (std::size_t i = k + 1; i < std::min(k + 4, chunks.size()); ++i) {
      const auto stream = over(chunks_of_50(), std::make_unique<running_source>());
      or_throw(stream->restore(or_throw(decode_cursor(cursor))));
      const auto chunk = or_throw(stream->next_chunk(50)).value();
      ASSERT_TRUE(same(chunk, chunks[i])) << k << " " << i;
      cursor = encode(or_throw(stream->cursor(1)));
      ASSERT_EQ(cursor, cursors[i]) << k << " " << i;
    }
  }
}

TEST(SourceStates, ACursorHoldsTheStatesAtTheEndsOfTheRangeThatARestoreReads) {
  const tokens corpus = random_tokens(50000, 40);
  stream_config c = chunks_of_50();
  c.end = end_policy::loop;
  std::vector<std::uint64_t> accepted;
  const auto accepted_after = [&](std::size_t chunks, std::uint32_t lanes) {
    c.lanes = lanes;
    const auto stream = over(c, std::make_unique<noting_source>(corpus, accepted));
    read_all(*stream, 50, 0, chunks);
    const auto cursor = or_throw(stream->cursor(1));
    accepted.clear();
    const auto again = over(c, std::make_unique<noting_source>(corpus, accepted));
    or_throw(again->restore(or_throw(decode_cursor(encode(cursor)))));
    EXPECT_EQ(encode(or_throw(again->cursor(1))), encode(cursor));
    return accepted;
  };
  using indices = std::vector<std::uint64_t>;
  // A restore reads whole pages of 16384 tokens from the window of 4096 tokens on.
  EXPECT_EQ(accepted_after(20, 1), (indices{0, 1000}));
  EXPECT_EQ(accepted_after(800, 1), (indices{32768, 40000}));
  // With the separator a round has 50001 tokens, so token 60100 is in the next one.
  EXPECT_EQ(accepted_after(1202, 1), (indices{60100 - 50001, 49152, 50000}));
  // Two lanes of 22500 tokens have windows of 2048: block 409 of lane 0 is block 818.
  EXPECT_EQ(accepted_after(900, 2), (indices{818 * 50 / 16384 * 16384, 45050}));
}

TEST(SourceStates, AStateForAnotherKindOfSourceIsRefused) {
  const auto stream = over(chunks_of_50(), std::make_unique<running_source>());
  read_all(*stream, 50, 0, 3);
  const auto cursor = or_throw(stream->cursor(1));
  const auto other = open_stream(chunks_of_50(), random_tokens(500, 41));
  const auto refused = other->restore(cursor);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::history_mismatch);
}

TEST(SourceStates, AStateAboveTheLimitIsAnError) {
  const auto stream =
      over(chunks_of_50(), std::make_unique<running_source>(max_source_state));
  read_all(*stream, 50, 0, 3);
  const auto refused = stream->cursor(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::unsupported);
  const auto fits =
      over(chunks_of_50(), std::make_unique<running_source>(max_source_state - 16));
  EXPECT_TRUE(fits->cursor(1));
}

TEST(SourceStates, WithoutStatesACursorHasTheBytesOfVersion1) {
  const auto stream = open_stream(chunks_of_50(), random_tokens(500, 42));
  const auto plain = or_throw(stream->cursor(1));
  EXPECT_EQ(load_le<std::uint32_t>(plain.source_state.data()), 1U);
  const auto with =
      or_throw(over(chunks_of_50(), std::make_unique<running_source>())->cursor(1));
  EXPECT_EQ(load_le<std::uint32_t>(with.source_state.data()), 2U);
  for (std::size_t size = 0; size < with.source_state.size(); ++size) {
    EXPECT_FALSE(describe_source_state(bytes_view(with.source_state).first(size)));
  }
  // A count of states that the bytes do not hold is no state.
  stream_cursor damaged = with;
  damaged.source_state[damaged.source_state.size() - 28] = std::byte{9};
  const auto other = over(chunks_of_50(), std::make_unique<running_source>());
  const auto refused = other->restore(damaged);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::corrupt);
}
