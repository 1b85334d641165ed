// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests mixtures, shuffled sources and samples against plain models of them, and resumes
/// them at every chunk.
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "storage/context_support.hpp"
#include "weir/storage/live_source.hpp"
#include "weir/storage/mix_source.hpp"

using namespace weir;
using namespace weir::storage;
using namespace weir::test;

namespace {

constexpr std::uint32_t eot = end_of_text;

/// Returns documents of a part: document d has the length of the list at d, its tokens
/// tell part and document, and `end_of_text` stands between two of them.
tokens documents(std::uint32_t part, const std::vector<std::size_t>& lengths) {
  tokens out;
  for (std::size_t d = 0; d < lengths.size(); ++d) {
    for (std::size_t i = 0; i < lengths[d]; ++i) {
      out.push_back(static_cast<std::uint32_t>(part * 40 + (d * 7 + i) % 40));
    }
    if (d + 1 < lengths.size()) {
      out.push_back(eot);
    }
  }
  return out;
}

/// Returns some lengths of documents.
std::vector<std::size_t> lengths(std::size_t count, std::uint64_t seed) {
  const philox random(seed, 3);
  std::vector<std::size_t> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = 1 + random.below(i, 30);
  }
  return out;
}

/// A source that cannot seek, over tokens in memory; it forgets nothing.
class live_tokens final : public token_source {
 public:
  explicit live_tokens(tokens all) : all_(std::move(all)) {}
  std::uint64_t size() const noexcept override { return unknown_size; }
  bool seekable() const noexcept override { return false; }
  result<bool> ready(std::uint64_t index, std::size_t count, int wait_ms) override {
    // Every second question is answered with "not yet", unless the caller waits.
    quiet_ = !quiet_;
    return wait_ms != 0 || (!quiet_ && index + count <= all_.size());
  }
  /// A chunk ends with every seventh token, and a read of more would wait.
  result<std::size_t> chunk_run(std::uint64_t index, std::size_t count) override {
    const std::uint64_t left = all_.size() - std::min<std::size_t>(index, all_.size());
    return static_cast<std::size_t>(
        std::min<std::uint64_t>({count, 7 - index % 7, left}));
  }
  result<std::size_t> read(std::uint64_t index, std::span<std::uint32_t> to) override {
    EXPECT_GE(index, first_);
    EXPECT_LE(to.size(), 7 - index % 7);
    const std::size_t count = std::min<std::size_t>(
        to.size(), all_.size() - std::min<std::size_t>(index, all_.size()));
    std::copy_n(all_.begin() + static_cast<std::ptrdiff_t>(index), count, to.begin());
    return count;
  }
  std::string place_text(std::uint64_t index) const override {
    return "live:" + std::to_string(index);
  }
  place place_of(std::uint64_t index) const override { return {0, index}; }
  const source_identity& identity() const noexcept override { return identity_; }
  result<std::uint64_t> next_document(std::uint64_t index) override { return index; }
  result<void> continue_at(std::uint64_t index, std::span<const std::uint32_t>) override {
    first_ = index;
    return {};
  }

 private:
  tokens all_;
  bool quiet_ = false;
  std::uint64_t first_ = 0;
  source_identity identity_;
};

/// Description of a part, from which it can be opened several times.
struct part_text {
  tokens text;
  std::uint64_t weight = 1;
  exhaustion exhausted = exhaustion::drop;
  bool live = false;
};

std::unique_ptr<token_source> open_mix(const std::vector<part_text>& texts,
                                       const mix_options& options) {
  std::vector<mix_part> parts;
  for (const part_text& one : texts) {
    mix_part part;
    part.source = one.live ? std::make_unique<live_tokens>(one.text)
                           : or_throw(open_memory_source(one.text));
    part.name = "p" + std::to_string(parts.size());
    part.weight = one.weight;
    part.exhausted = one.exhausted;
    parts.push_back(std::move(part));
  }
  return or_throw(mix_sources(std::move(parts), options));
}

/// Reads a source from its start up to its end or to `limit` tokens.
tokens all_of(token_source& source, std::size_t limit = 100000) {
  tokens out(limit);
  out.resize(or_throw(source.read(0, out)));
  return out;
}

/// Cuts a text into units by the definition. Documents end with `end_of_text`.
std::vector<tokens> units_of(const tokens& text, std::size_t run, bool loops) {
  std::vector<tokens> out;
  for (std::size_t at = 0; at < text.size();) {
    const auto from = text.begin() + static_cast<std::ptrdiff_t>(at);
    tokens one;
    if (run == 0) {
      const auto end = std::find(from, text.end(), eot);
      one.assign(from, end);
      at += one.size() + 1;
      one.push_back(eot);
    } else {
      const std::size_t count = std::min(run, text.size() - at);
      one.assign(from, from + static_cast<std::ptrdiff_t>(count));
      at += count;
      if (at == text.size() && loops && one.back() != eot) {
        one.push_back(eot);
      }
    }
    out.push_back(std::move(one));
  }
  return out;
}

/// The mixture by its definition: draws from lists of units. `order` receives the parts.
tokens mixed(const std::vector<part_text>& texts, const mix_options& options,
             std::size_t limit, std::vector<std::size_t>* order = nullptr) {
  std::vector<std::vector<tokens>> units;
  for (const part_text& one : texts) {
    units.push_back(
        units_of(one.text, options.run_tokens, one.exhausted == exhaustion::loop));
  }
  const std::size_t k = texts.size();
  std::vector<std::size_t> next(k, 0);
  std::vector<std::uint64_t> weights(k);
  std::vector<std::int64_t> drawn(k, 0);
  std::vector<bool> gone(k, false);
  std::int64_t since = 0;
  std::transform(texts.begin(), texts.end(), weights.begin(),
                 [](const part_text& p) { return p.weight; });
  tokens out;
  for (std::uint64_t draw = 0; out.size() < limit;) {
    for (const mix_row& row : options.curriculum) {
      if (row.draw == draw) {
        weights = row.weights;
        drawn.assign(k, 0);
        since = 0;
      }
    }
    std::vector<std::int64_t> w(k);
    for (std::size_t p = 0; p < k; ++p) {
      w[p] = gone[p] ? 0 : static_cast<std::int64_t>(weights[p]);
    }
    const std::int64_t total = std::accumulate(w.begin(), w.end(), std::int64_t{0});
    if (total == 0) {
      break;
    }
    std::size_t chosen = k;
    if (options.mode == mix_mode::random) {
      std::uint64_t u =
          philox(options.seed, 0x4D4958).below(draw, static_cast<std::uint64_t>(total));
      for (chosen = 0; u >= static_cast<std::uint64_t>(w[chosen]); ++chosen) {
        u -= static_cast<std::uint64_t>(w[chosen]);
      }
    } else {
      const auto active = std::count_if(w.begin(), w.end(), [](auto x) { return x > 0; });
      const std::int64_t cut = std::max<std::int64_t>(1, 2 * active - 2);
      long double first = 0;
      for (std::size_t p = 0; p < k; ++p) {
        const std::int64_t deficit = w[p] * (since + 1) - total * drawn[p];
        if (w[p] == 0 || (active > 1 && deficit * cut < total)) {
          continue;
        }
        const long double deadline =
            static_cast<long double>(total * (cut - 1) - deficit * cut) / w[p];
        if (chosen == k || deadline < first) {
          chosen = p;
          first = deadline;
        }
      }
    }
    if (next[chosen] == units[chosen].size()) {
      if (texts[chosen].exhausted == exhaustion::stop) {
        break;
      }
      if (texts[chosen].exhausted == exhaustion::drop) {
        gone[chosen] = true;
        drawn.assign(k, 0);
        since = 0;
        continue;
      }
      next[chosen] = 0;
    }
    const tokens& one = units[chosen][next[chosen]++];
    out.insert(out.end(), one.begin(), one.end());
    drawn[chosen] += 1;
    since += 1;
    draw += 1;
    if (order != nullptr) {
      order->push_back(chosen);
    }
  }
  out.resize(std::min(out.size(), limit));
  return out;
}

/// Returns three parts with policies.
std::vector<part_text> three_parts(exhaustion a, exhaustion b, exhaustion c) {
  return {{documents(0, lengths(40, 1)), 3, a},
          {documents(1, lengths(25, 2)), 2, b},
          {documents(2, lengths(9, 3)), 1, c}};
}

/// Returns options in both modes, for documents and runs, with and without a curriculum.
std::vector<mix_options> all_options() {
  std::vector<mix_options> out;
  for (const mix_mode mode : {mix_mode::smooth, mix_mode::random}) {
    for (const std::uint64_t run : {0U, 16U}) {
      for (const bool rows : {false, true}) {
        mix_options o;
        o.mode = mode;
        o.seed = 11;
        o.run_tokens = run;
        if (rows) {
          o.curriculum = {{5, {1, 0, 4}}, {6, {1, 1, 1}}, {30, {0, 2, 5}}};
        }
        out.push_back(std::move(o));
      }
    }
  }
  return out;
}

stream_config chunks_of(std::size_t n, std::uint32_t lanes = 1) {
  stream_config c;
  c.chunk = n;
  c.lanes = lanes;
  c.frequencies = {1};
  return c;
}

/// Resumes a stream at every chunk, up to three times, and compares chunks and cursors
/// with those of the uninterrupted stream.
void resume_everywhere(const std::function<std::unique_ptr<token_source>()>& open,
                       const stream_config& config, std::size_t count) {
  const auto start = [&] { return or_throw(context_stream::open(config, open())); };
  const auto reference = start();
  const std::vector<token_chunk> chunks = read_all(*reference, config.chunk, 0, count);
  std::vector<byte_vector> cursors;
  std::vector<chunk_mark> marks;
  for (const token_chunk& chunk : chunks) {
    marks.push_back(chunk.mark);
    cursors.push_back(encode(or_throw(reference->cursor_at(marks, 1))));
  }
  for (std::size_t k = 0; k < chunks.size(); ++k) {
    byte_vector cursor = cursors[k];
    for (std::size_t i = k + 1; i < std::min(k + 4, chunks.size()); ++i) {
      const auto stream = start();
      or_throw(stream->restore(or_throw(decode_cursor(cursor))));
      const auto chunk = or_throw(stream->next_chunk(config.chunk)).value();
      ASSERT_TRUE(same(chunk, chunks[i])) << k << " " << i;
      cursor = encode(or_throw(stream->cursor(1)));
      ASSERT_EQ(cursor, cursors[i]) << k << " " << i;
    }
  }
}

}  // namespace

TEST(MixSource, EqualsItsDefinitionUnderEveryPolicyAndMode) {
  const exhaustion policies[] = {exhaustion::loop, exhaustion::drop, exhaustion::stop};
  for (const mix_options& options : all_options()) {
    for (int code = 0; code < 27; ++code) {
      const auto texts =
          three_parts(policies[code % 3], policies[code / 3 % 3], policies[code / 9]);
      const auto source = open_mix(texts, options);
      const tokens expected = mixed(texts, options, 2500);
      ASSERT_EQ(all_of(*source, 2500), expected) << code;
      // Any piece can be read in any order.
      for (std::size_t at = expected.size(); at > 100; at -= 97) {
        tokens piece(60);
        piece.resize(or_throw(source->read(at - 60, piece)));
        ASSERT_TRUE(std::equal(piece.begin(), piece.begin() + 60,
                               expected.begin() + static_cast<std::ptrdiff_t>(at - 60)))
            << code << " " << at;
      }
    }
  }
}

TEST(MixSource, PartsThatCannotSeekGiveTheSameTokens) {
  for (const mix_options& options : all_options()) {
    for (int code = 0; code < 8; ++code) {
      auto texts = three_parts(code % 2 == 0 ? exhaustion::drop : exhaustion::stop,
                               exhaustion::drop, exhaustion::drop);
      const tokens expected = mixed(texts, options, 2500);
      texts[0].live = true;
      texts[1].live = code / 2 % 2 == 1;
      texts[2].live = code / 4 == 1;
      texts[2].exhausted = texts[2].live ? exhaustion::drop : exhaustion::loop;
      const auto source = open_mix(texts, options);
      EXPECT_FALSE(source->seekable());
      ASSERT_EQ(all_of(*source, 2500),
                texts[2].live ? expected : mixed(texts, options, 2500));
    }
  }
}

TEST(MixSource, SmoothSharesStayWithinAUnitAtEveryMoment) {
  const std::vector<std::vector<std::uint64_t>> cases = {
      {3, 2, 1},
      {1, 1, 1, 1, 1, 1, 1, 100},
      {7, 11, 13, 1, 1},
      {1000, 1},
      {97, 3, 5, 2, 2, 2, 2, 2, 2, 2, 2, 2},
      {5}};
  for (const auto& weights : cases) {
    std::vector<part_text> texts;
    for (const std::uint64_t w : weights) {
      texts.push_back({documents(0, {1}), w, exhaustion::loop});
    }
    const auto source = open_mix(texts, {});
    const std::uint64_t total =
        std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
    for (std::uint64_t draw = 0; draw < 1500; ++draw) {
      // Every unit is a token and its separator.
      const auto shares = or_throw(source->shares(2 * draw));
      for (std::size_t p = 0; p < weights.size(); ++p) {
        const auto error = static_cast<std::int64_t>(shares[p].draws * total) -
                           static_cast<std::int64_t>(draw * weights[p]);
        ASSERT_LT(std::abs(error), static_cast<std::int64_t>(total)) << draw << " " << p;
        ASSERT_EQ(shares[p].tokens, 2 * shares[p].draws);
        ASSERT_EQ(shares[p].rounds, shares[p].draws == 0 ? 0 : shares[p].draws - 1);
      }
    }
  }
}

TEST(MixSource, RandomSharesHoldInTheLongRunAndDependOnTheSeed) {
  const std::vector<part_text> texts = {{documents(0, {1}), 3, exhaustion::loop},
                                        {documents(1, {1}), 1, exhaustion::loop}};
  const auto open = [&](std::uint64_t seed) {
    mix_options o;
    o.mode = mix_mode::random;
    o.seed = seed;
    return open_mix(texts, o);
  };
  const auto source = open(5);
  const auto shares = or_throw(source->shares(40000));
  EXPECT_EQ(shares[0].draws + shares[1].draws, 20000U);
  EXPECT_NEAR(static_cast<double>(shares[0].draws), 15000, 300);
  EXPECT_EQ(all_of(*source, 500), all_of(*open(5), 500));
  EXPECT_NE(all_of(*source, 500), all_of(*open(6), 500));
}

TEST(MixSource, RunsKeepCharactersWhole) {
  // Characters of 1 to 4 bytes; 16 bytes never end at the border of all of them.
  tokens text;
  for (std::uint32_t i = 0; i < 100; ++i) {
    for (const std::uint32_t byte :
         {0x61U, 0xC3U, 0xA4U, 0xE2U, 0x82U, 0xACU, 0xF0U, 0x9FU, 0x98U, 0x80U}) {
      text.push_back(byte);
    }
  }
  mix_options options;
  options.run_tokens = 17;
  const std::vector<part_text> texts = {{text, 1, exhaustion::drop},
                                        {tokens(500, 0x62), 1, exhaustion::drop}};
  const temp_folder folder;
  const auto mix_of_files = [&] {
    std::vector<mix_part> parts(2);
    for (std::size_t p = 0; p < 2; ++p) {
      const std::string path = folder / std::to_string(p);
      write_text(path, std::string(texts[p].text.begin(), texts[p].text.end()));
      parts[p].source = or_throw(open_file_source(posix_file_system(), path));
      parts[p].exhausted = exhaustion::drop;
    }
    return or_throw(mix_sources(std::move(parts), options));
  };
  for (const char* kind : {"memory", "live", "file"}) {
    auto parts = texts;
    parts[0].live = kind == std::string_view("live");
    const auto source =
        kind == std::string_view("file") ? mix_of_files() : open_mix(parts, options);
    const tokens out = all_of(*source);
    tokens first;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const bool continues = out[i] >= 0x80 && out[i] < 0xC0;
      // A byte that continues a character follows another byte of the same part.
      EXPECT_FALSE(continues && out[i - 1] == 0x62) << kind << i;
      if (out[i] != 0x62) {
        first.push_back(out[i]);
      }
    }
    EXPECT_EQ(first, text);
  }
}

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
        std::make_unique<counted>(or_throw(open_memory_source(text)), count);
    parts[1].source = or_throw(open_memory_source(text, "other"));
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
        : source_(or_throw(open_memory_source(std::move(text)))), fails_(fails) {}
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

TEST(MixSource, RefusesWhatItCannotMix) {
  const auto refused = [](std::vector<part_text> texts, const mix_options& options) {
    try {
      open_mix(texts, options);
      return false;
    } catch (const std::exception&) {
      return true;
    }
  };
  const auto texts = three_parts(exhaustion::drop, exhaustion::drop, exhaustion::drop);
  EXPECT_FALSE(refused(texts, {}));
  EXPECT_TRUE(refused({}, {}));
  mix_options options;
  options.run_tokens = 3;
  EXPECT_TRUE(refused(texts, options));
  options.run_tokens = 0;
  options.curriculum = {{10, {1, 2, 3}}, {10, {1, 2, 3}}};
  EXPECT_TRUE(refused(texts, options));
  options.curriculum = {{10, {0, 0, 0}}};
  EXPECT_TRUE(refused(texts, options));
  options.curriculum = {{10, {1, 1}}};
  EXPECT_TRUE(refused(texts, options));
  auto live = texts;
  live[1].live = true;
  live[1].exhausted = exhaustion::loop;
  EXPECT_TRUE(refused(live, {}));
  live_options turns;
  turns.turns = true;
  std::vector<mix_part> parts(1);
  parts[0].source = open_pipe_source(0, "stdin", turns);
  parts[0].exhausted = exhaustion::drop;
  const auto with_turns = mix_sources(std::move(parts), {});
  ASSERT_FALSE(with_turns);
  EXPECT_NE(with_turns.error().text().find("without turns"), std::string::npos);
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

TEST(ShuffleSource, PermutesTheUnitsOfEachWindow) {
  for (const std::uint64_t run : {0U, 16U}) {
    const tokens text = documents(0, lengths(101, 7));
    const auto open = [&](std::uint64_t seed) {
      return or_throw(shuffle_source(or_throw(open_memory_source(text)), 10, seed, run));
    };
    const auto source = open(3);
    const tokens out = all_of(*source);
    EXPECT_EQ(out.size(), source->size());
    EXPECT_NE(out, all_of(*open(4)));
    auto units = units_of(text, run, false);
    std::size_t at = 0;
    for (std::size_t w = 0; w < units.size(); w += 10) {
      const std::size_t last = std::min(units.size(), w + 10);
      std::vector<std::pair<std::uint64_t, std::size_t>> keys;
      for (std::size_t i = w; i < last; ++i) {
        keys.emplace_back(philox(3, 0x53485546).bits(i), i);
      }
      std::sort(keys.begin(), keys.end());
      for (const auto& [key, i] : keys) {
        for (const std::uint32_t token : units[i]) {
          ASSERT_EQ(out.at(at++), token) << run << " " << w;
        }
      }
    }
    EXPECT_EQ(at, out.size());
    resume_everywhere([&] { return open(3); }, chunks_of(29), 60);
  }
}

TEST(SampleSource, KeepsTheUnitsThatTheirNumbersChoose) {
  for (const std::uint64_t run : {0U, 16U}) {
    const tokens text = documents(0, lengths(300, 8));
    const auto open = [&] {
      return or_throw(sample_source(or_throw(open_memory_source(text)), 1, 3, 9, run));
    };
    tokens expected;
    const auto units = units_of(text, run, false);
    for (std::size_t i = 0; i < units.size(); ++i) {
      if (philox(9, 0x53414D50).below(i, 3) < 1) {
        expected.insert(expected.end(), units[i].begin(), units[i].end());
      }
    }
    const auto source = open();
    const tokens out = all_of(*source);
    if (run == 0 && philox(9, 0x53414D50).below(units.size() - 1, 3) < 1) {
      expected.pop_back();  // the last document of the text has no separator
    }
    EXPECT_EQ(out, expected);
    EXPECT_GT(out.size(), text.size() / 5);
    resume_everywhere(open, chunks_of(29), 60);
  }
}

TEST(SampleSource, HasTheSharesOfItsMixture) {
  const auto texts = three_parts(exhaustion::loop, exhaustion::drop, exhaustion::loop);
  const auto mix = open_mix(texts, {});
  const auto all = or_throw(sample_source(open_mix(texts, {}), 1, 1, 9, 0));
  EXPECT_EQ(or_throw(all->shares(700)), or_throw(mix->shares(700)));
  const auto half = or_throw(sample_source(open_mix(texts, {}), 1, 2, 9, 0));
  const auto shares = or_throw(half->shares(700));
  ASSERT_EQ(shares.size(), texts.size());
  EXPECT_GT(shares[0].tokens, or_throw(mix->shares(700))[0].tokens);
}

TEST(MixSource, NestsShufflesAndSamples) {
  const tokens a = documents(0, lengths(200, 9));
  const tokens b = documents(1, lengths(150, 10));
  const auto open = [&](std::uint64_t seed) {
    std::vector<mix_part> parts(2);
    parts[0].source =
        or_throw(shuffle_source(or_throw(open_memory_source(a, "a")), 16, seed, 0));
    parts[1].source =
        or_throw(sample_source(or_throw(open_memory_source(b, "b")), 1, 2, 4, 0));
    parts[1].weight = 2;
    return or_throw(mix_sources(std::move(parts), {}));
  };
  resume_everywhere([&] { return open(1); }, chunks_of(64), 70);
  const auto stream = or_throw(context_stream::open(chunks_of(64), open(1)));
  read_all(*stream, 64, 0, 9);
  const auto other = or_throw(context_stream::open(chunks_of(64), open(2)));
  EXPECT_EQ(other->restore(or_throw(stream->cursor(1))).error().code(),
            errc::rng_mismatch);
}
