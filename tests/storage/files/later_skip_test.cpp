// SPDX-License-Identifier: Apache-2.0
/// @file
/// Ranges that are left out of mixtures, shuffled sources and samples after they were
/// read in part.
#include <gtest/gtest.h>

#include <functional>

#include "storage/context_support.hpp"
#include "weir/storage/mix_source.hpp"
#include "weir/storage/token_files.hpp"

namespace weir::storage {
namespace {

using test::temp_folder;
using test::tokens;

using made_source = std::unique_ptr<token_source>;

/// A source that cannot seek, over tokens in memory.
class arriving_tokens final : public token_source {
 public:
  explicit arriving_tokens(tokens all) : all_(std::move(all)) {}
  std::uint64_t size() const noexcept override { return unknown_size; }
  bool seekable() const noexcept override { return false; }
  result<std::size_t> read(std::uint64_t index, std::span<std::uint32_t> to) override {
    const auto from = std::min<std::size_t>(index, all_.size());
    const std::size_t count = std::min(to.size(), all_.size() - from);
    std::copy_n(all_.begin() + static_cast<std::ptrdiff_t>(from), count, to.begin());
    return count;
  }
  std::string place_text(std::uint64_t index) const override {
    return "arriving:" + std::to_string(index);
  }
  place place_of(std::uint64_t index) const override { return {0, index}; }
  const source_identity& identity() const noexcept override { return identity_; }
  result<std::uint64_t> next_document(std::uint64_t index) override { return index; }
  result<void> continue_at(std::uint64_t, std::span<const std::uint32_t>) override {
    return {};
  }

 private:
  tokens all_;
  source_identity identity_;
};

made_source mixed(made_source source, made_source other, mix_options options,
                  exhaustion other_exhausted = exhaustion::stop) {
  std::vector<mix_part> parts(2);
  parts[0].source = std::move(source);
  parts[0].exhausted = exhaustion::drop;
  parts[1].source = std::move(other);
  parts[1].exhausted = other_exhausted;
  return or_throw(mix_sources(std::move(parts), std::move(options)));
}

/// Twelve documents, and streams over arrangements of them.
class LaterSkips : public testing::Test {
 protected:
  void SetUp() override {
    for (std::size_t i = 0; i < 12; ++i) {
      paths_.push_back(folder_ / ("f" + std::to_string(10 + i)));
      const tokens text = test::random_tokens(150 + 40 * (i % 5), 30 + i);
      test::write_text(paths_.back(), std::string(text.begin(), text.end()));
    }
    config_.chunk = 97;
    config_.frequencies = {1};
  }
  [[nodiscard]] result<std::unique_ptr<context_stream>> open(
      const std::vector<file_range>& skip, const stream_cursor* at = nullptr) const {
    token_file_options options;
    options.format = token_format::bytes;
    options.skip = skip;
    WEIR_TRY(auto files, open_token_files(posix_file_system(), paths_, options));
    auto whole = arrange_(std::move(files));
    if (at == nullptr) {
      WEIR_CHECK(whole->go_on_at(0));
    }
    WEIR_TRY(auto stream, context_stream::open(config_, std::move(whole)));
    if (at != nullptr) {
      WEIR_CHECK(stream->restore(*at));
    }
    return stream;
  }
  [[nodiscard]] tokens rest_of(context_stream& stream) const {
    return test::concatenated(test::read_all(stream, config_.chunk));
  }
  /// Adds a range at every chunk. Where it is accepted, the text is that of a run that
  /// had the range from the beginning, also behind a further resume without the setting.
  /// @returns the number of chunks before which the range was accepted, and the number of
  /// chunks before which the texts of both runs are equal
  std::pair<std::size_t, std::size_t> add_everywhere(const file_range& range) {
    const tokens expected = rest_of(*or_throw(open({range})));
    const auto plain = or_throw(open({}));
    std::pair<std::size_t, std::size_t> counts{0, 0};
    tokens seen;
    for (;;) {
      const bool agrees = seen.size() <= expected.size() &&
                          std::equal(seen.begin(), seen.end(), expected.begin());
      counts.second += agrees ? 1 : 0;
      const auto cursor = or_throw(plain->cursor(1));
      if (const auto next = open({range}, &cursor)) {
        EXPECT_EQ(counts.first + 1, counts.second) << "accepted behind a refusal";
        counts.first += 1;
        expect_text(**next, range, seen, expected);
      } else {
        EXPECT_EQ(next.error().code(), errc::config_mismatch) << next.error().message();
      }
      const auto chunk = or_throw(plain->next_chunk(config_.chunk));
      if (!chunk) {
        return counts;
      }
      seen.insert(seen.end(), chunk->tokens.begin(), chunk->tokens.end());
    }
  }
  void expect_text(context_stream& from, const file_range& range, tokens seen,
                   const tokens& expected) const {
    for (const auto& chunk : test::read_all(from, config_.chunk, 0, 4)) {
      seen.insert(seen.end(), chunk.tokens.begin(), chunk.tokens.end());
    }
    const auto cursor = or_throw(from.cursor(2));
    const auto shown = or_throw(left_out_of(cursor.source_state));
    ASSERT_EQ(shown.size(), 1U);
    EXPECT_EQ(shown[0].range.bytes, range.end - range.begin);
    const auto again = or_throw(open({}, &cursor));
    const tokens rest = rest_of(*again);
    seen.insert(seen.end(), rest.begin(), rest.end());
    EXPECT_EQ(seen, expected);
  }

  const temp_folder folder_;
  std::vector<std::string> paths_;
  stream_config config_;
  std::function<made_source(made_source)> arrange_;
};

TEST_F(LaterSkips, OfMixturesMayBeginWithTheNextTokenOfTheirPart) {
  const auto other = [] {
    return or_throw(open_memory_tokens(test::random_tokens(3000, 5, 14)));
  };
  mix_options documents;
  mix_options runs;
  runs.run_tokens = 100;
  mix_options random = runs;
  random.mode = mix_mode::random;
  const std::function<made_source(made_source)> arrangements[] = {
      [&](made_source s) { return mixed(std::move(s), other(), documents); },
      [&](made_source s) { return mixed(std::move(s), other(), runs); },
      [&](made_source s) { return mixed(std::move(s), other(), random); },
      [&](made_source s) {
        auto live = std::make_unique<arriving_tokens>(test::random_tokens(3000, 6));
        return mixed(std::move(s), std::move(live), runs, exhaustion::drop);
      }};
  for (const auto& one : arrangements) {
    arrange_ = one;
    const auto [accepted, agreeing] = add_everywhere({paths_[5], 20, 140});
    EXPECT_EQ(accepted, agreeing);
    EXPECT_GT(accepted, 10U);
  }
  arrange_ = arrangements[1];  // a whole document
  const auto [accepted, agreeing] = add_everywhere({paths_[7], 0, 230});
  EXPECT_EQ(accepted, agreeing);
}

TEST_F(LaterSkips, OfSamplesMayBeginWithTheirNextToken) {
  arrange_ = [](made_source s) {
    return or_throw(sample_source(std::move(s), 2, 3, 4, 0));
  };
  const auto [accepted, agreeing] = add_everywhere({paths_[6], 10, 100});
  EXPECT_GT(accepted, 3U);
  EXPECT_LE(accepted, agreeing);
}

TEST_F(LaterSkips, OfShuffledSourcesBeginBehindTheirWindow) {
  arrange_ = [](made_source s) {
    return or_throw(shuffle_source(std::move(s), 3, 8, 0));
  };
  for (const auto& range :
       {file_range{paths_[7], 10, 100}, file_range{paths_[9], 0, 310}}) {
    const auto [accepted, agreeing] = add_everywhere(range);
    EXPECT_GT(accepted, 10U);
    EXPECT_LE(accepted, agreeing);
  }
  const auto stream = or_throw(open({}));
  test::read_all(*stream, config_.chunk, 0, 2);
  const auto cursor = or_throw(stream->cursor(1));
  const auto late = open({{paths_[0], 100, 110}}, &cursor);
  ASSERT_FALSE(late);
  EXPECT_EQ(
      late.error().text(),
      "cannot leave a range out of a shuffled source: expected it behind the window "
      "of 3 units from token 0 on, which was begun");
  EXPECT_EQ(late.error().hint(),
            "--generation goes on from a checkpoint before this window");
}

TEST_F(LaterSkips, OfNestedArrangementsFollowTheirRules) {
  arrange_ = [](made_source s) {
    auto sample = or_throw(sample_source(std::move(s), 3, 4, 2, 0));
    auto other = or_throw(open_memory_tokens(test::random_tokens(3000, 5, 14)));
    mix_options options;
    options.run_tokens = 100;
    return mixed(or_throw(shuffle_source(std::move(sample), 2, 3, 0)), std::move(other),
                 options);
  };
  const auto [accepted, agreeing] = add_everywhere({paths_[8], 30, 60});
  EXPECT_GT(accepted, 10U);
  EXPECT_LE(accepted, agreeing);
}

TEST_F(LaterSkips, OfPartsThatWereBegunAgainAreRefused) {
  arrange_ = [](made_source s) {
    std::vector<mix_part> parts(1);
    parts[0].source = std::move(s);
    return or_throw(mix_sources(std::move(parts), {}));
  };
  const auto stream = or_throw(open({}));
  test::read_all(*stream, config_.chunk, 0, 55);
  const auto cursor = or_throw(stream->cursor(1));
  const auto late = open({{paths_[11], 5, 9}}, &cursor);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().text(),
            "cannot leave 4 bytes out of \"" + paths_[11] +
                "\": expected a range behind the place at which the run goes on, found "
                "one of which tokens were consumed");
}

TEST_F(LaterSkips, LeaveTextBehindAConsumedEndOfText) {
  paths_.resize(2);
  arrange_ = [](made_source s) { return s; };
  config_.chunk = 151;
  const auto stream = or_throw(open({}));
  test::read_all(*stream, config_.chunk, 0, 1);
  const auto cursor = or_throw(stream->cursor(1));
  const auto refused = open({{paths_[1], 0, 190}}, &cursor);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().text(),
            "cannot leave ranges out of a source: expected text behind the end of \"" +
                paths_[0] + "\", which was consumed, found none");
  EXPECT_TRUE(open({{paths_[1], 0, 189}}, &cursor));
}

}  // namespace
}  // namespace weir::storage
