// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the backward pass against finite differences, in double precision, for every
/// parameter tensor.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "models/double_model.hpp"
#include "weir/base/philox.hpp"

namespace weir::test {
namespace {

/// A model and the pulse whose gradients are checked. Chunks before that pulse fill the
/// memories, because an empty memory has gradients of zero.
struct gradient_case {
  prose_config config;
  std::vector<std::size_t> before;  ///< lengths of the chunks before, for all lanes
  std::vector<std::size_t> chunks;  ///< length of the chunk of each lane in the pulse
};

/// Returns a random text of the given length for each lane.
std::vector<lane_text> next_texts(double_model& model,
                                  const std::vector<std::size_t>& lengths,
                                  std::uint64_t seed) {
  std::vector<lane_text> out;
  for (std::size_t lane = 0; lane < lengths.size(); ++lane) {
    auto text =
        some_tokens(lengths[lane] + 1, model.model().config().vocab, seed + 31 * lane);
    const std::int64_t next = text.back();
    text.pop_back();
    out.push_back({text, next});
  }
  return out;
}

/// Returns the central difference of the loss of a pulse by one entry of a parameter.
double difference(double_model& model, const std::vector<double>& contexts,
                  const std::vector<lane_text>& texts, double* entry, double h) {
  const double middle = *entry;
  const auto loss = [&](double value) {
    *entry = value;
    model.load_contexts(contexts);
    return model.run(texts, false);
  };
  const double up = loss(middle + h);
  const double down = loss(middle - h);
  *entry = middle;
  return (up - down) / (2 * h);
}

/// Number of random entries of every parameter that are checked: fewer in instrumented
/// builds, which are many times slower and compute the same values as the others.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WEIR_INSTRUMENTED 1
#endif
#endif
#if defined(WEIR_INSTRUMENTED)
constexpr int entries = 1;
#else
constexpr int entries = 2;
#endif

/// Checks random entries of every parameter.
void check_all(const gradient_case& s) {
  double_model model(s.config);
  std::uint64_t seed = 100;
  for (std::size_t n : s.before) {
    model.run(next_texts(model, std::vector<std::size_t>(s.chunks.size(), n), seed++),
              false);
  }
  const auto contexts = model.save_contexts();
  const auto texts = next_texts(model, s.chunks, seed);
  model.run(texts, true);
  const models::parameter_layout& layout = model.layout();
  const std::vector<double> gradient(model.model().gradients(),
                                     model.model().gradients() + layout.size());
  const philox random(7, 9);
  std::uint64_t draw = 0;
  for (const models::parameter_info& info : layout.all()) {
    double largest = 0;
    for (std::int64_t i = 0; i < info.count(); ++i) {
      largest = std::max(largest,
                         std::abs(gradient[static_cast<std::size_t>(info.offset + i)]));
    }
    for (int e = 0; e < entries; ++e) {
      auto i = static_cast<std::int64_t>(
          random.below(draw++, static_cast<std::uint64_t>(info.count())));
      if (info.name == "embedding") {  // rows of tokens that do not occur have gradient 0
        i = texts[0].tokens[static_cast<std::size_t>(e) % texts[0].tokens.size()] *
                info.columns +
            i % info.columns;
      }
      const double found = gradient[static_cast<std::size_t>(info.offset + i)];
      const double expected =
          difference(model, contexts, texts, model.parameters() + info.offset + i, 1e-4);
      EXPECT_NEAR(found, expected, 1e-6 * largest + 2e-8) << info.name << " entry " << i;
    }
  }
}

/// Returns a small model whose levels fire at these periods.
gradient_case small_case(std::vector<std::uint64_t> frequencies) {
  gradient_case s;
  s.config.width = 32;
  s.config.hidden = 32;
  s.config.vocab = 19;
  s.config.frequencies = std::move(frequencies);
  s.config.max_chunk = 1024;
  s.config.seed = 3;
  return s;
}

TEST(Gradient, EqualsFiniteDifferencesOnOneAlignedWindow) {
  gradient_case s = small_case({1, 8, 64, 512});
  s.before = {64, 64, 64, 64, 64, 64, 64, 64, 64};
  s.chunks = {64};
  check_all(s);
}

TEST(Gradient, EqualsFiniteDifferencesAcrossWindowsAndFirings) {
  gradient_case s = small_case({1, 8, 64, 128});
  s.before = {64, 64};
  s.chunks = {256};
  check_all(s);
}

TEST(Gradient, EqualsFiniteDifferencesOnMisalignedChunks) {
  gradient_case s = small_case({1, 4, 64, 128});
  s.before = {100};
  s.chunks = {150};
  check_all(s);
}

TEST(Gradient, EqualsFiniteDifferencesInsideOneWindow) {
  gradient_case s = small_case({1, 16, 64});
  s.before = {64, 21};
  s.chunks = {30};
  check_all(s);
}

TEST(Gradient, IsTheMeanOverTheTokensOfAllLanes) {
  gradient_case s = small_case({1, 8, 64});
  s.config.lanes = 3;
  s.before = {64};
  s.chunks = {64, 40, 7};
  check_all(s);
}

}  // namespace
}  // namespace weir::test
