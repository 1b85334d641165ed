// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the parts of a model: masks of levels, the rate schedule, sampling, the layout
/// of parameters, dense products, and kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "gemm.hpp"
#include "prose/kernels/select.hpp"
#include "prose/layout.hpp"
#include "prose/schedule.hpp"
#include "weir/models/prose.hpp"

namespace weir::test {
namespace {

using namespace models;

TEST(Pulse, MaskNamesTheLevelsThatFireInsideTheChunk) {
  const std::uint64_t c[] = {1, 8, 64, 512};
  EXPECT_EQ(active_mask(c, 0, 64), 0b0111U);
  EXPECT_EQ(active_mask(c, 448, 512), 0b1111U);
  EXPECT_EQ(active_mask(c, 8, 15), 0b0001U);
  EXPECT_EQ(active_mask(c, 8, 16), 0b0011U);
  EXPECT_EQ(active_mask(c, 8, 8), 0U);
  const std::uint64_t period[] = {1, 1, 2, 1};
  EXPECT_EQ(active_mask(c, 0, 64, period, 0), 0b0011U);
  EXPECT_EQ(active_mask(c, 64, 128, period, 1), 0b0111U);
}

TEST(Schedule, WarmsUpAndFallsToItsEnd) {
  prose_config c;
  EXPECT_DOUBLE_EQ(scheduled_rate(c, 0, 1000), c.rate / 100);
  EXPECT_DOUBLE_EQ(scheduled_rate(c, 99, 1000), c.rate);
  EXPECT_NEAR(scheduled_rate(c, 550, 1000), c.rate * 0.55, 1e-15);
  EXPECT_NEAR(scheduled_rate(c, 1000, 1000), c.rate * 0.1, 1e-15);
  for (double x = 0; x <= 1; x += 1.0 / 64) {
    EXPECT_NEAR(cosine_of_pi(x), std::cos(3.14159265358979323846 * x), 2e-15);
  }
  EXPECT_NEAR(power(0.99, 1234), std::pow(0.99, 1234), 1e-18);
}

TEST(Sample, TakesTheLargestAtZeroAndFollowsTheOddsAbove) {
  const float logits[] = {0.0F, 1.0F, 1.0F, -1.0F};
  const philox random(1, 2);
  EXPECT_EQ(sample(logits, 0, random, 0), 1U);
  int counts[4] = {};
  constexpr int draws = 20000;
  for (std::uint64_t i = 0; i < draws; ++i) {
    ++counts[sample(logits, 0.5F, random, i)];
  }
  double total = 0;
  for (float x : logits) {
    total += std::exp(2.0 * x);
  }
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(counts[i] / static_cast<double>(draws), std::exp(2.0 * logits[i]) / total,
                0.012);
  }
}

TEST(Layout, NeighboursThatProductsTakeAsOneMatrixHaveNoGaps) {
  const parameter_layout layout{prose_config{}};
  EXPECT_EQ(layout.parameter_count(), 366240);
  for (const block_parameters& b : layout.blocks) {
    const auto next = [&](int i) { return layout[i].offset + layout[i].count(); };
    EXPECT_EQ(next(b.key), layout[b.value].offset);
    for (std::size_t l = 0; l + 1 < b.levels.size(); ++l) {
      EXPECT_EQ(next(b.levels[l].out), layout[b.levels[l + 1].out].offset);
    }
  }
  std::int64_t total = 0;
  for (const step_group& g : layout.groups()) {
    for (int p : g.parameters) {
      EXPECT_EQ(layout[p].level, g.level);
      total += layout[p].count();
    }
  }
  EXPECT_EQ(total, layout.parameter_count())
      << "every parameter must be in exactly one group";
}

/// Groups of a block must not contain parameters of another block, so that a pulse can
/// begin as soon as the first block has stepped.
TEST(Layout, GroupsFollowTheBlocksAndShareNone) {
  const parameter_layout layout{prose_config{}};
  const auto part_of = [&](int parameter) {
    int part = parameter >= layout.final_gain ? 1 : 0;
    for (const block_parameters& b : layout.blocks) {
      part += parameter >= b.gain1 ? 1 : 0;
    }
    return part;
  };
  int before = 0;
  for (const step_group& g : layout.groups()) {
    for (int p : g.parameters) {
      EXPECT_EQ(part_of(p), part_of(g.parameters.front())) << layout[p].name;
    }
    EXPECT_GE(part_of(g.parameters.front()), before);
    before = part_of(g.parameters.front());
  }
  EXPECT_EQ(before, 1 + static_cast<int>(layout.blocks.size()));
}

/// The model calls products with all 64 rows of a window, some of which are zero. The
/// bits of a row must not depend on what the other rows hold.
TEST(Products, RowsDoNotDependOnOtherRows) {
  constexpr int m = 64;
  constexpr int n = 128;
  constexpr int k = 128;
  const philox random(3, 1);
  std::vector<float> a(m * k);
  std::vector<float> b(k * n);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = random.normal(i);
  }
  for (std::size_t i = 0; i < b.size(); ++i) {
    b[i] = random.normal(a.size() + i);
  }
  for (form fb : {form::plain, form::transposed}) {
    std::vector<float> whole(m * n);
    gemm(form::plain, fb, m, n, k, a.data(), k, b.data(), n, 0, whole.data(), n);
    for (int rows : {1, 8, 31, 63}) {
      std::vector<float> some(a);
      std::fill(some.begin() + rows * k, some.end(), 0.0F);
      std::vector<float> out(m * n);
      gemm(form::plain, fb, m, n, k, some.data(), k, b.data(), n, 0, out.data(), n);
      EXPECT_EQ(
          std::memcmp(out.data(), whole.data(), static_cast<std::size_t>(rows) * n * 4),
          0);
    }
  }
}

TEST(Kernels, ElementaryFunctionsAreNearTheTruthOnEveryInstructionSet) {
  for (const char* name : {"x86-64", "x86-64-v3", "x86-64-v4"}) {
    const auto table = select_kernels(name);
    if (!table) {
      continue;  // this processor does not have the instruction set
    }
    constexpr int vocab = 257;
    std::vector<float> logits(vocab);
    double total = 0;
    for (int i = 0; i < vocab; ++i) {
      logits[static_cast<std::size_t>(i)] = static_cast<float>((i * 37 % 101 - 50) / 4.0);
      total += std::exp(static_cast<double>(logits[static_cast<std::size_t>(i)]));
    }
    const double expected = std::log(total) - static_cast<double>(logits[256]);
    const std::int32_t target = 256;
    float nats = 0;
    (*table)->softmax(logits.data(), vocab, &target, 1, vocab, 1.0F, &nats);
    EXPECT_NEAR(nats, expected, 1e-5) << name;
    double sum = 0;
    for (float x : logits) {
      sum += static_cast<double>(x);
    }
    EXPECT_NEAR(sum, 0, 1e-6)
        << "the probabilities add up to 1, and 1 is subtracted at the target";
  }
}

TEST(Kernels, AMemoryThatForgetsAtOnceHasNoDenormalDecays) {
  const auto* table = or_throw(select_kernels("auto"));
  constexpr std::size_t all = window_rows * window_rows;
  std::vector<std::vector<float>> arrays;
  const auto array = [&](std::size_t count) {
    return arrays.emplace_back(count, 0.25F).data();
  };
  memory_head<float> h;
  h.raw_query = array(all);
  h.raw_stride = head_width;
  float* const gates = array(2 * window_rows);
  std::fill_n(gates + window_rows, window_rows, 3.0F);  // keeps 1/21 with each token
  h.gates = gates;
  h.out_stride = head_width;
  for (const float** in : {&h.key, &h.key_t, &h.value, &h.key_key}) {
    *in = array(all);
  }
  for (float** out : {&h.open_theta, &h.open_keep, &h.memory, &h.accumulator, &h.query,
                      &h.query_inverse, &h.theta, &h.theta_slope, &h.keep, &h.before,
                      &h.query_key, &h.key_memory, &h.query_memory, &h.error, &h.out}) {
    *out = array(all);
  }
  h.table = array(table_rows * window_rows);
  table->memory_forward(h);
  const double keep = (1 - 0x1p-10) / (1 + std::exp(3.0));
  EXPECT_NEAR(h.table[10 * window_rows + 8], keep * keep, 1e-7)
      << "between rows 8 and 10 the memory decays with two firings";
  for (std::size_t i = 0; i < table_rows * window_rows; ++i) {
    EXPECT_TRUE(h.table[i] == 0 || h.table[i] >= 1e-30F) << i << ": " << h.table[i];
  }
  EXPECT_EQ(h.before[window_rows], 0);
}

TEST(Kernels, StepIsAdamWithDecoupledDecay) {
  const auto* table = or_throw(select_kernels("auto"));
  step_plan<float> plan;
  plan.scale = 0.5F;
  plan.mean = 0.25F;
  plan.rate = 0.01F;
  plan.correction1 = 1 / (1 - 0.9F);
  plan.correction2 = 1 / std::sqrt(1 - 0.99F);
  plan.beta1 = 0.9F;
  plan.beta2 = 0.99F;
  plan.epsilon = 1e-8F;
  std::vector<float> p(16, 2.0F);
  std::vector<float> g(16, 3.0F);
  std::vector<float> m(16, 0.0F);
  std::vector<float> v(16, 0.0F);
  std::vector<float> e(16, 1.5F);
  table->step(p.data(), g.data(), m.data(), v.data(), e.data(), 16, plan, 0.1F);
  const double d = (1.5 + 3.0 * 0.5) * 0.25;
  EXPECT_NEAR(m[3], 0.1 * d, 1e-7);
  EXPECT_NEAR(v[3], 0.01 * d * d, 1e-7);
  EXPECT_NEAR(p[3], 2.0 * (1 - 0.01 * 0.1) - 0.01, 1e-5)
      << "the first step has the size of the learning rate";
  EXPECT_EQ(e[3], 0.0F);
}

}  // namespace
}  // namespace weir::test
