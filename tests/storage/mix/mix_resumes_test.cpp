// SPDX-License-Identifier: Apache-2.0
/// @file
/// Resumes of mixtures, and damage to their states.
#include "storage/mix/mix_support.hpp"

using namespace weir;
using namespace weir::storage;
using namespace weir::test;

TEST(MixSource, ResumesAtEveryChunk) {
  for (const mix_options& options : all_options()) {
    const auto texts = three_parts(exhaustion::loop, exhaustion::drop, exhaustion::loop);
    resume_everywhere([&] { return open_mix(texts, options); }, chunks_of(37), 60);
    auto live = texts;
    live[0].exhausted = exhaustion::drop;
    live[0].live = true;
    live[1].live = true;
    resume_everywhere([&] { return open_mix(live, options); }, chunks_of(37), 40);
  }
}

TEST(MixSource, ResumesWithSeveralLanesAndBehindTheWindow) {
  const std::vector<part_text> texts = {
      {documents(0, lengths(900, 4)), 3, exhaustion::loop},
      {documents(1, lengths(300, 5)), 2, exhaustion::loop}};
  resume_everywhere([&] { return open_mix(texts, {}); }, chunks_of(500, 3), 40);
}

TEST(MixSource, AResumeReadsFromItsStateOn) {
  // The part counts the tokens that are read from it.
  class counted final : public token_source {
   public:
    counted(std::unique_ptr<token_source> source, std::size_t& count)
        : source_(std::move(source)), count_(count) {}
    std::uint64_t size() const noexcept override { return source_->size(); }
    result<std::size_t> read(std::uint64_t index, std::span<std::uint32_t> to) override {
      count_ += to.size();
      return source_->read(index, to);
    }
    std::string place_text(std::uint64_t i) const override {
      return source_->place_text(i);
    }
    place place_of(std::uint64_t i) const override { return source_->place_of(i); }
    const source_identity& identity() const noexcept override {
      return source_->identity();
    }
    result<std::uint64_t> next_document(std::uint64_t i) override {
      return source_->next_document(i);
    }

   private:
    std::unique_ptr<token_source> source_;
    std::size_t& count_;
  };
  const tokens text = documents(0, lengths(60000, 6));
  std::size_t count = 0;
  const auto open = [&] {
    std::vector<mix_part> parts(2);
    parts[0].source =
        std::make_unique<counted>(or_throw(open_memory_tokens(text)), count);
    parts[1].source = or_throw(open_memory_tokens(text, "other"));
    return or_throw(context_stream::open(chunks_of(1000),
                                         or_throw(mix_sources(std::move(parts), {}))));
  };
  const auto stream = open();
  read_all(*stream, 1000, 0, 1500);
  const auto cursor = or_throw(stream->cursor(1));
  const auto again = open();
  count = 0;
  or_throw(again->restore(cursor));
  EXPECT_LT(count, 200000U);
  EXPECT_EQ(or_throw(again->next_chunk(1000))->tokens,
            or_throw(stream->next_chunk(1000))->tokens);
}

TEST(MixSource, AFailedReadLeavesNoWrongPlace) {
  /// A part that cannot find documents while a flag is set.
  class failing final : public token_source {
   public:
    failing(tokens text, const bool& fails)
        : source_(or_throw(open_memory_tokens(std::move(text)))), fails_(fails) {}
    std::uint64_t size() const noexcept override { return source_->size(); }
    result<std::size_t> read(std::uint64_t index, std::span<std::uint32_t> to) override {
      return source_->read(index, to);
    }
    std::string place_text(std::uint64_t i) const override {
      return source_->place_text(i);
    }
    place place_of(std::uint64_t i) const override { return source_->place_of(i); }
    const source_identity& identity() const noexcept override {
      return source_->identity();
    }
    result<std::uint64_t> next_document(std::uint64_t i) override {
      return fails_ ? error(errc::source_unavailable, "the part fails")
                    : source_->next_document(i);
    }

   private:
    std::unique_ptr<token_source> source_;
    const bool& fails_;
  };
  bool fails = false;
  std::vector<mix_part> parts(2);
  for (std::uint32_t p = 0; p < 2; ++p) {
    parts[p].source =
        std::make_unique<failing>(documents(p, lengths(2000, 12 + p)), fails);
  }
  const auto source = or_throw(mix_sources(std::move(parts), {}));
  const tokens all = all_of(*source, 20000);
  fails = true;
  tokens some(200);
  EXPECT_FALSE(source->read(100, some));
  fails = false;
  or_throw(source->read(100, some));
  EXPECT_EQ(some, tokens(all.begin() + 100, all.begin() + 300));
}

TEST(MixSource, AnotherSeedIsRngMismatchAndOtherWeightsAnotherSource) {
  const auto texts = three_parts(exhaustion::loop, exhaustion::loop, exhaustion::loop);
  const auto open = [&](const std::vector<part_text>& parts, const mix_options& options) {
    return or_throw(context_stream::open(chunks_of(50), open_mix(parts, options)));
  };
  mix_options options;
  options.mode = mix_mode::random;
  options.seed = 1;
  const auto stream = open(texts, options);
  read_all(*stream, 50, 0, 20);
  const auto cursor = or_throw(stream->cursor(1));
  or_throw(open(texts, options)->restore(cursor));
  auto seed = options;
  seed.seed = 2;
  EXPECT_EQ(open(texts, seed)->restore(cursor).error().code(), errc::rng_mismatch);
  EXPECT_EQ(open(texts, {})->restore(cursor).error().code(), errc::rng_mismatch);
  auto weights = texts;
  weights[0].weight = 4;
  EXPECT_EQ(open(weights, options)->restore(cursor).error().code(),
            errc::history_mismatch);
}

TEST(MixSource, AStateInsideOfAUnitIsRefusedWhenAllPartsHaveEnded) {
  const std::vector<part_text> texts = {{tokens(20, 1), 1, exhaustion::drop, true},
                                        {tokens(20, 2), 1, exhaustion::drop, true}};
  const auto source = open_mix(texts, {});
  const std::uint64_t end = all_of(*source).size();
  byte_vector state = or_throw(source->state(end));
  // The number of tokens of a unit follows the version and the number of the parts; the
  // last of the six counters of a part says that it has ended.
  store_le<std::uint64_t>(state.data() + 8, 5);
  for (const std::size_t part : {0U, 1U}) {
    store_le<std::uint64_t>(state.data() + 32 + 48 * part + 40, 1);
  }
  const auto refused = open_mix(texts, {})->restore_state(end + 5, state);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::corrupt) << refused.error().message();
}

TEST(MixSource, NoFlippedByteOfItsStateCrashesTheReader) {
  const auto texts = three_parts(exhaustion::loop, exhaustion::drop, exhaustion::loop);
  const auto source = open_mix(texts, {});
  const byte_vector state = or_throw(source->state(700));
  for (std::size_t at = 0; at < state.size(); ++at) {
    byte_vector flipped = state;
    flipped[at] ^= std::byte{0x41};
    const auto fresh = open_mix(texts, {});
    if (fresh->restore_state(700, flipped)) {
      tokens some(100);
      static_cast<void>(fresh->read(700, some));
    }
    EXPECT_FALSE(open_mix(texts, {})->restore_state(700, bytes_view(state).first(at)));
  }
}
