// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the count models, with which reports compare the model, against their definition
/// and known figures.
#include "report/count_models.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "tools/licences.hpp"
#include "weir/base/philox.hpp"

namespace weir::tools {
namespace {

/// Returns the bytes of a text as tokens.
std::vector<std::uint32_t> as_tokens(const std::string& text) {
  std::vector<std::uint32_t> out;
  for (const char c : text) {
    out.push_back(static_cast<unsigned char>(c));
  }
  return out;
}

/// Computes the bits per token by the definition of a count model, with maps of token
/// lists. It is slow and serves as the oracle.
double slow_bits(const std::vector<std::uint32_t>& tokens, std::uint32_t vocabulary,
                 unsigned order) {
  std::map<std::vector<std::uint32_t>, std::map<std::uint32_t, double>> seen;
  double bits = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    double p = 1.0 / vocabulary;
    for (std::size_t k = 0; k <= std::min<std::size_t>(order, i); ++k) {
      const std::vector<std::uint32_t> context(
          tokens.begin() + static_cast<std::ptrdiff_t>(i - k),
          tokens.begin() + static_cast<std::ptrdiff_t>(i));
      auto& after = seen[context];
      double n = 0;
      for (const auto& [token, count] : after) {
        n += count;
      }
      const auto t = static_cast<double>(after.size());
      if (n > 0) {
        const auto found = after.find(tokens[i]);
        p = ((found == after.end() ? 0.0 : found->second) + t * p) / (n + t);
      }
      after[tokens[i]] += 1;
    }
    bits -= std::log2(p);
  }
  return bits / static_cast<double>(tokens.size());
}

TEST(CountModels, AgreeWithTheDefinitionOnRandomText) {
  const std::uint64_t seed = 7;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const philox random(seed, 0);
  std::vector<std::uint32_t> tokens(1500);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto draw = static_cast<std::uint32_t>(random.below(i, 5));
    tokens[i] = i > 2 && draw < 3 ? tokens[i - 3] : draw;
  }
  const auto curves = or_throw(count_models(tokens, 7, 100));
  ASSERT_EQ(curves.size(), 4U);
  for (const auto& curve : curves) {
    EXPECT_NEAR(curve.cumulative, slow_bits(tokens, 7, curve.order), 1e-9)
        << "order " << curve.order;
  }
}

TEST(CountModels, ReachTheKnownFiguresOnLicences) {
  const std::string text = test::licences(300000);
  if (text.empty()) {
    GTEST_SKIP() << "/usr/share/common-licenses is shorter than 300000 bytes";
  }
  const auto curves = or_throw(count_models(as_tokens(text), 256, 4096));
  EXPECT_NEAR(curves[0].cumulative, 4.62, 0.02);
  EXPECT_NEAR(curves[1].cumulative, 3.56, 0.02);
  EXPECT_NEAR(curves[2].cumulative, 2.52, 0.02);
  EXPECT_NEAR(curves[3].cumulative, 1.87, 0.02);
  EXPECT_NEAR(curves[2].last_quarter, 2.45, 0.02);
  EXPECT_NEAR(curves[3].last_quarter, 1.79, 0.02);
  EXPECT_NEAR(or_throw(gzip_bits_per_byte(as_view(text))), 1.802, 0.005);
}

TEST(CountModels, WindowsAverageToTheWhole) {
  const auto curves =
      or_throw(count_models(as_tokens(std::string(1000, 'a') + "bcdefgh"), 256, 64));
  for (const auto& curve : curves) {
    ASSERT_EQ(curve.windows.size(), 16U);
    double sum = 0;
    for (std::size_t i = 0; i < curve.windows.size(); ++i) {
      sum += static_cast<double>(curve.windows[i]) * (i == 15 ? 47 : 64);
    }
    EXPECT_NEAR(sum / 1007, curve.cumulative, 1e-5);
  }
}

TEST(CountModels, RefuseATokenOutsideTheVocabulary) {
  const std::vector<std::uint32_t> tokens{0, 1, 9};
  const auto r = count_models(tokens, 4, 10);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::out_of_range);
  EXPECT_NE(r.error().text().find("token 2"), std::string::npos);
}

TEST(GzipBits, OfNothingAreZero) {
  EXPECT_EQ(or_throw(gzip_bits_per_byte({})), 0.0);
}

}  // namespace
}  // namespace weir::tools
