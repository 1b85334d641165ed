// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the chunk form, in which the model is computed, against a loop over tokens.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "models/double_model.hpp"
#include "models/reference.hpp"
#include "prose/kernels/select.hpp"

namespace weir::test {
namespace {

/// Returns the negative log-likelihood of `target` in nats.
double loss_of(const std::vector<double>& logits, std::uint32_t target) {
  double top = logits[0];
  for (double x : logits) {
    top = std::max(top, x);
  }
  double s = 0;
  for (double x : logits) {
    s += std::exp(x - top);
  }
  return std::log(s) + top - logits[target];
}

/// Returns the largest difference of losses and memories after chunks of these lengths,
/// which must add up to whole windows.
double worst_difference(const std::vector<std::size_t>& chunks) {
  prose_config config;
  config.max_chunk = 1024;
  config.seed = 11;
  double_model model(config);
  reference_model reference(config, model.layout(), model.parameters());
  std::size_t total = 0;
  for (std::size_t n : chunks) {
    total += n;
  }
  const auto text = some_tokens(total + 1, config.vocab, 5);
  double worst = 0;
  std::size_t position = 0;
  for (std::size_t n : chunks) {
    const auto from = text.begin() + static_cast<std::ptrdiff_t>(position);
    const double loss = model.run(
        {{{from, from + static_cast<std::ptrdiff_t>(n)}, text[position + n]}}, false);
    double expected = 0;
    for (std::size_t i = position; i < position + n; ++i) {
      expected += loss_of(reference.step(text[i]), text[i + 1]);
    }
    worst = std::max(worst, std::abs(loss - expected / static_cast<double>(n)));
    position += n;
  }
  EXPECT_EQ(position % models::window_rows, 0U)
      << "memories can be compared only at the end of a window";
  for (std::size_t b = 0; b < config.blocks; ++b) {
    for (std::size_t l = 0; l < config.frequencies.size(); ++l) {
      for (std::size_t h = 0; h < config.heads; ++h) {
        const auto& expected = reference.memory(b, l, h);
        const double* found =
            model.model().state().lanes[0].blocks[b].memories[l][h].memory.data;
        for (std::size_t i = 0; i < expected.size(); ++i) {
          worst = std::max(worst, std::abs(found[i] - expected[i]));
        }
      }
    }
  }
  return worst;
}

TEST(ChunkForm, EqualsTheTokenLoopOnAlignedChunks) {
  EXPECT_LE(worst_difference(std::vector<std::size_t>(10, 64)), 1e-9);
}

TEST(ChunkForm, EqualsTheTokenLoopOnChunksOfAnyLength) {
  EXPECT_LE(worst_difference({1, 1, 6, 100, 20, 64, 512, 3, 61}), 1e-9);
}

/// This test runs in single precision, because only there the products are those of the
/// library: none of its products may let a row depend on later rows.
TEST(ChunkForm, LaterTokensDoNotReachEarlierRows) {
  prose_config config;
  config.max_chunk = 200;
  const auto make = [&] {
    return or_throw(graph<float>::create(models::task_runner(nullptr), config,
                                         *or_throw(models::select_kernels("auto"))));
  };
  const auto run = [&](graph<float>& g, const std::vector<std::uint32_t>& text) {
    models::pulse_record record;
    models::prose::lane_input in;
    in.tokens = text;
    models::pulse p;
    p.phase = models::pulse_phase::build;
    models::fill_record(record, p, {&in, 1}, std::vector{models::lane_clock{}});
    or_throw(g.submit_pulse(record));
  };
  const auto text = some_tokens(200, config.vocab, 8);
  const auto first = make();
  run(*first, text);
  for (std::size_t changed : {1U, 7U, 8U, 63U, 64U, 65U, 130U, 199U}) {
    auto other_text = text;
    for (std::size_t i = changed; i < other_text.size(); ++i) {
      other_text[i] = (other_text[i] + 1) % config.vocab;
    }
    const auto second = make();
    run(*second, other_text);
    const std::size_t width = config.width;
    for (std::size_t row = 0; row < 200; ++row) {
      const float* a = first->final_rows(0, row / 64) + row % 64 * width;
      const float* b = second->final_rows(0, row / 64) + row % 64 * width;
      EXPECT_EQ(std::memcmp(a, b, width * sizeof(float)) == 0, row < changed)
          << "row " << row << ", first changed token " << changed;
    }
  }
}

}  // namespace
}  // namespace weir::test
