// SPDX-License-Identifier: Apache-2.0
/// @file
/// Mixtures equal their definition, and have the shares of their weights.
#include "storage/mix/mix_support.hpp"

using namespace weir;
using namespace weir::storage;
using namespace weir::test;

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
  parts[0].source = or_throw(open_pipe_source(0, "stdin", turns));
  parts[0].exhausted = exhaustion::drop;
  const auto with_turns = mix_sources(std::move(parts), {});
  ASSERT_FALSE(with_turns);
  EXPECT_NE(with_turns.error().text().find("without turns"), std::string::npos);
}
