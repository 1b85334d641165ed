// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the draw of tokens: each filter by hand, and the distribution by chi-square.
#include "weir/models/token_sampling.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace weir::models {
namespace {

/// Draws a token from logits that are accepted.
std::uint32_t token_drawn(std::span<const float> logits,
                          std::span<const std::uint32_t> history,
                          const sampling_options& options, std::uint64_t index) {
  return or_throw(draw_token(logits, history, options, index));
}

/// Returns the tokens that occur among many draws.
std::set<std::uint32_t> drawn(const std::vector<float>& logits,
                              const sampling_options& options,
                              const std::vector<std::uint32_t>& history = {}) {
  std::set<std::uint32_t> ids;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    ids.insert(token_drawn(logits, history, options, i));
  }
  return ids;
}

using ids = std::set<std::uint32_t>;

TEST(TokenSampling, WithoutTemperatureTheLowestOfTheLikeliestTokensIsTaken) {
  EXPECT_EQ(token_drawn(std::vector<float>{1, 3, 2, 3}, {}, {}, 5), 1U);
  sampling_options options;
  options.bias = {{2, 1.5F}};
  EXPECT_EQ(token_drawn(std::vector<float>{1, 3, 2, 3}, {}, options, 5), 2U);
}

TEST(TokenSampling, PenaltiesChangeRecentTokensAlone) {
  const std::vector<float> logits = {4, 3, -1};
  const std::vector<std::uint32_t> history = {0, 0};
  sampling_options options;
  options.repetition_penalty = 2;
  EXPECT_EQ(token_drawn(logits, history, options, 0), 1U);
  options = {};
  options.presence_penalty = 0.9F;
  EXPECT_EQ(token_drawn(logits, history, options, 0), 0U);
  options.presence_penalty = 1.1F;
  EXPECT_EQ(token_drawn(logits, history, options, 0), 1U);
  options = {};
  options.frequency_penalty = 0.6F;  // twice
  EXPECT_EQ(token_drawn(logits, history, options, 0), 1U);
  // A negative logit becomes smaller, too.
  options = {};
  options.repetition_penalty = 2;
  EXPECT_EQ(token_drawn(std::vector<float>{-1, -1.5F}, history, options, 0), 1U);
  // The token lies before the last 64.
  std::vector<std::uint32_t> old(65, 2);
  old[0] = 0;
  options.repetition_penalty = 10;
  EXPECT_EQ(token_drawn(logits, old, options, 0), 0U);
}

TEST(TokenSampling, FiltersKeepTheLikeliestTokens) {
  // Probabilities 8/15, 4/15, 2/15 and 1/15, in the order 3, 0, 2, 1.
  const auto two = static_cast<float>(std::log(2.0));
  const std::vector<float> logits = {2 * two, 0, two, 3 * two};
  sampling_options options;
  options.temperature = 1;
  EXPECT_EQ(drawn(logits, options), (ids{0, 1, 2, 3}));
  options.top_k = 2;
  EXPECT_EQ(drawn(logits, options), (ids{0, 3}));
  options.top_k = 0;
  options.top_p = 0.6F;
  EXPECT_EQ(drawn(logits, options), (ids{0, 3}));
  options.top_p = 0.5F;
  EXPECT_EQ(drawn(logits, options), ids{3});
  options.top_p = 0;
  EXPECT_EQ(drawn(logits, options), ids{3});
  options.top_p = 1;
  options.min_p = 0.2F;
  EXPECT_EQ(drawn(logits, options), (ids{0, 2, 3}));
  // Top-p refers to the tokens that top-k has kept: 8/12 and 4/12.
  options.min_p = 0;
  options.top_k = 2;
  options.top_p = 0.65F;
  EXPECT_EQ(drawn(logits, options), ids{3});
}

TEST(TokenSampling, FrequenciesFollowTheProbabilities) {
  std::vector<float> logits;
  std::vector<double> weights;
  double total = 0;
  for (int i = 0; i < 20; ++i) {
    logits.push_back(static_cast<float>(i % 7) * 0.5F);
    weights.push_back(std::exp(static_cast<double>(logits.back()) / 0.8));
    total += weights.back();
  }
  sampling_options options;
  options.temperature = 0.8F;
  options.seed = 12;
  constexpr int draws = 20'000;
  std::vector<int> counts(logits.size());
  for (std::uint64_t i = 0; i < draws; ++i) {
    ++counts[token_drawn(logits, {}, options, i)];
  }
  double chi = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = draws * weights[i] / total;
    chi += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  EXPECT_LT(chi, 43.8);  // 19 degrees of freedom: exceeded once in 1,000 seeds
}

TEST(TokenSampling, SeedAndIndexDecide) {
  const std::vector<float> logits(50, 1.0F);
  sampling_options options;
  options.temperature = 1;
  EXPECT_EQ(token_drawn(logits, {}, options, 7), token_drawn(logits, {}, options, 7));
  ids of_seeds;
  for (options.seed = 0; options.seed < 100; ++options.seed) {
    of_seeds.insert(token_drawn(logits, {}, options, 7));
  }
  EXPECT_GT(of_seeds.size(), 30U);
}

TEST(TokenSampling, LogitsThatAreNotFiniteAreRefusedWithThePositionOfTheToken) {
  const std::vector<std::uint32_t> history = {1, 1, 1};
  for (const float temperature : {0.0F, 1.0F}) {
    for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
      sampling_options options;
      options.temperature = temperature;
      const auto drawn = draw_token(std::vector<float>{1, 0, bad}, history, options, 0);
      ASSERT_FALSE(drawn) << bad;
      EXPECT_EQ(drawn.error().code(), errc::out_of_range);
      EXPECT_NE(drawn.error().message().find("position 3"), std::string::npos);
      EXPECT_NE(drawn.error().message().find("finite logit of token 2"),
                std::string::npos);
      EXPECT_NE(drawn.error().message().find("import them again"), std::string::npos);
    }
  }
}

TEST(TokenSampling, SumsAndQuotientsThatAreNotFiniteAreRefused) {
  sampling_options options;
  options.temperature = 0.5F;
  const auto too_large = draw_token(std::vector<float>{3e38F, 0}, {}, options, 0);
  ASSERT_FALSE(too_large);
  EXPECT_EQ(too_large.error().code(), errc::out_of_range);
  const std::string text = too_large.error().message();
  EXPECT_NE(text.find("choose a temperature closer to 1"), std::string::npos) << text;
  EXPECT_EQ(text.find("import"), std::string::npos) << "the weights are sound: " << text;
  options.temperature = 1;
  options.bias = {{1, 3e38F}};
  EXPECT_EQ(draw_token(std::vector<float>{0, 3e38F}, {}, options, 0).error().code(),
            errc::out_of_range);
  // Logits that become minus infinity are those of tokens that are never drawn.
  options.bias = {{1, -3e38F}};
  EXPECT_EQ(drawn({0, -3e38F}, options), ids{0});
}

/// Draws by the definition: sorts all tokens.
std::uint32_t draw_of_all(const std::vector<float>& logits,
                          const sampling_options& options, std::uint64_t index) {
  sampling_options every = options;
  every.top_k = static_cast<std::uint32_t>(logits.size());
  return token_drawn(logits, {}, every, index);
}

TEST(TokenSampling, SelectionDrawsWhatSortingDraws) {
  std::vector<float> logits(3000);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = static_cast<float>((i * 7919) % 1009) * 0.01F;  // each value three times
  }
  ids seen;
  for (const float top_p : {1.0F, 0.99F, 0.5F}) {
    for (const float min_p : {0.0F, 0.001F}) {
      sampling_options options;
      options.temperature = 2;
      options.top_p = top_p;
      options.min_p = min_p;
      for (std::uint64_t i = 0; i < 100; ++i) {
        const std::uint32_t id = token_drawn(logits, {}, options, i);
        EXPECT_EQ(id, draw_of_all(logits, options, i));
        seen.insert(id);
      }
    }
  }
  EXPECT_GT(seen.size(), 50U);
}

TEST(TokenSampling, OptionsOutOfRangeAreRefused) {
  const auto refused = [](auto change) {
    sampling_options options;
    change(options);
    const auto checked = check_options(options, 10);
    return !checked && checked.error().code() == errc::invalid_argument;
  };
  EXPECT_TRUE(check_options({}, 10));
  EXPECT_TRUE(refused([](auto& o) { o.temperature = -1; }));
  EXPECT_TRUE(refused([](auto& o) { o.temperature = 1e-9F; }));
  EXPECT_TRUE(refused([](auto& o) { o.temperature = std::nanf(""); }));
  EXPECT_TRUE(refused([](auto& o) { o.top_p = 1.5F; }));
  EXPECT_TRUE(refused([](auto& o) { o.min_p = -0.1F; }));
  EXPECT_TRUE(refused([](auto& o) { o.repetition_penalty = 0; }));
  EXPECT_TRUE(refused([](auto& o) { o.presence_penalty = 1000; }));
  EXPECT_TRUE(refused([](auto& o) { o.frequency_penalty = -1000; }));
  EXPECT_TRUE(refused([](auto& o) { o.bias = {{10, 1.0F}}; }));
  EXPECT_TRUE(refused([](auto& o) { o.bias = {{1, INFINITY}}; }));
}

}  // namespace
}  // namespace weir::models
