// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the demo's kernels, called block by block, against references in double
/// precision.
#include <gtest/gtest.h>

#include <barrier>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#include "module/cpu_level.hpp"
#include "module_support.hpp"
#include "weir/tessera/module/loader.hpp"

namespace weir::tessera {
namespace {

using floats = std::vector<float>;
using extents = std::array<std::int32_t, 3>;

/// The barrier that the blocks or threads of a launch share.
struct meeting {
  std::barrier<> all;
  std::atomic<std::int64_t> left;  ///< grid barriers until the kernel is told to stop
};

// The services of the runtime that the kernels call: a barrier of the threads of a
// block, and a grid barrier that returns whether to stop. Between its first two waits no
// block changes `left`, so all blocks return the same.
void meet(const tessBlockContext* block) {
  static_cast<meeting*>(block->runtime)->all.arrive_and_wait();
}
int meet_all_blocks(const tessBlockContext* block) {
  auto& m = *static_cast<meeting*>(block->runtime);
  m.all.arrive_and_wait();
  const int stop = m.left.load() <= 0 ? 1 : 0;
  m.all.arrive_and_wait();
  if (block->blockIndex[0] == 0) {
    --m.left;
  }
  m.all.arrive_and_wait();
  return stop;
}

constexpr tessKernelServices services{
    sizeof(tessKernelServices), 0, meet, meet_all_blocks, nullptr, nullptr};

/// Returns the context of the block with this linear index.
tessBlockContext block_context(extents grid, extents block, std::int32_t linear) {
  tessBlockContext out{};
  out.structSize = sizeof out;
  std::copy(grid.begin(), grid.end(), out.grid);
  std::copy(block.begin(), block.end(), out.block);
  out.blockIndex[0] = linear % grid[0];
  out.blockIndex[1] = linear / grid[0] % grid[1];
  out.blockIndex[2] = linear / grid[0] / grid[1];
  out.services = &services;
  return out;
}

/// Returns the bytes of a value.
template <class T>
byte_vector argument(const T& value) {
  byte_vector out(sizeof value);
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}
/// Returns the parameter buffer of a launch with these values.
template <class... Ts>
byte_vector packed(const loaded_kernel& kernel, const Ts&... values) {
  const std::vector<byte_vector> bytes{argument(values)...};
  const std::vector<bytes_view> views(bytes.begin(), bytes.end());
  return or_throw(pack_arguments(kernel.record.parameters, views));
}

/// Runs all blocks, the last one first, because a kernel must not depend on their order.
template <class... Ts>
void run_blocks(const loaded_kernel* kernel, extents grid, const Ts&... values) {
  ASSERT_NE(kernel, nullptr);
  const byte_vector args = packed(*kernel, values...);
  const std::int32_t blocks = grid[0] * grid[1] * grid[2];
  for (std::int32_t i = 0; i < blocks; ++i) {
    const tessBlockContext c = block_context(grid, {128, 1, 1}, blocks - 1 - i);
    ASSERT_EQ(kernel->block_entry()(&c, args.data()), 0);
  }
}

/// Returns n normally distributed numbers.
floats random_floats(std::size_t n, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  floats out(n);
  std::generate(out.begin(), out.end(), [&] { return normal(random); });
  return out;
}

/// Loads the demo's module once for each level that this processor supports.
std::vector<std::shared_ptr<const loaded_module>> all_levels() {
  std::vector<std::shared_ptr<const loaded_module>> out;
  for (const std::string& level : host_levels()) {
    load_options options;
    options.max_level = level;
    out.push_back(or_throw(load_module(test::demo_fatbin(), options)));
    const std::size_t section = out.back()->kernels()[0].section;
    EXPECT_EQ(out.back()->sections()[section].arch, level);
  }
  return out;
}

/// Batches, heads, sequence length and head dimension.
struct attention_shape {
  std::int32_t B, H, L, D;
};

/// Computes softmax(scale q k^T) v in double precision.
std::vector<double> attention_reference(attention_shape s, const floats& q,
                                        const floats& k, const floats& v, double scale) {
  const auto L = static_cast<std::size_t>(s.L);
  const auto D = static_cast<std::size_t>(s.D);
  std::vector<double> out(q.size());
  for (std::size_t row = 0; row < q.size() / D; ++row) {
    const std::size_t head = row / L * L;
    std::vector<double> weights(L);
    double max = -1e300;
    for (std::size_t j = 0; j < L; ++j) {
      for (std::size_t d = 0; d < D; ++d) {
        weights[j] += double{q[row * D + d]} * k[(head + j) * D + d];
      }
      weights[j] *= scale;
      max = std::max(max, weights[j]);
    }
    double sum = 0;
    for (double& w : weights) {
      w = std::exp(w - max);
      sum += w;
    }
    for (std::size_t j = 0; j < L; ++j) {
      for (std::size_t d = 0; d < D; ++d) {
        out[row * D + d] += weights[j] / sum * v[(head + j) * D + d];
      }
    }
  }
  return out;
}

TEST(Kernels, OfFusedAttentionAgreeWithTheReference) {
  const auto modules = all_levels();
  for (const attention_shape s :
       {attention_shape{2, 3, 130, 24}, attention_shape{1, 1, 1, 1},
        attention_shape{1, 2, 64, 33}}) {
    const auto n = static_cast<std::size_t>(s.B * s.H * s.L * s.D);
    const floats q = random_floats(n, 1);
    const floats k = random_floats(n, 2);
    const floats v = random_floats(n, 3);
    const float scale = 1 / std::sqrt(static_cast<float>(s.D));
    const auto expected = attention_reference(s, q, k, v, scale);
    floats first;
    for (const auto& m : modules) {
      for (const extents grid :
           {extents{1, 1, 1}, extents{256, 1, 1}, extents{3, 5, 2}}) {
        floats o(n, -1);
        run_blocks(m->find("flash_attention_fused"), grid, q.data(), k.data(), v.data(),
                   o.data(), s.B, s.H, s.L, s.D, scale);
        for (std::size_t i = 0; i < n; ++i) {
          ASSERT_NEAR(o[i], expected[i], 2e-6 * (1 + std::abs(expected[i]))) << i;
        }
        first = first.empty() ? o : first;
        EXPECT_EQ(std::memcmp(first.data(), o.data(), n * sizeof(float)), 0)
            << "the bits must not depend on the CPU level or the grid";
      }
    }
  }
}

TEST(Kernels, OfFusedAttentionTakeScoresOfAnySize) {
  const auto module = or_throw(load_module(test::demo_fatbin()));
  const attention_shape s{1, 1, 200, 8};
  floats q = random_floats(1600, 4);
  floats k = random_floats(1600, 5);
  const floats v = random_floats(1600, 6);
  for (float& x : q) {
    x *= 100;
  }
  const auto expected = attention_reference(s, q, k, v, 1);
  floats o(1600);
  run_blocks(module->find("flash_attention_fused"), {4, 1, 1}, q.data(), k.data(),
             v.data(), o.data(), s.B, s.H, s.L, s.D, 1.0F);
  for (std::size_t i = 0; i < o.size(); ++i) {
    ASSERT_NEAR(o[i], expected[i], 1e-3) << i;
  }
}

TEST(Kernels, OfMatricesMultiplyThem) {
  const std::int32_t m = 37, n = 131, k = 50;
  const floats a = random_floats(static_cast<std::size_t>(m * k), 1);
  const floats b = random_floats(static_cast<std::size_t>(k * n), 2);
  floats first;
  for (const auto& module : all_levels()) {
    for (const extents grid : {extents{1, 1, 1}, extents{5, 2, 1}, extents{64, 1, 1}}) {
      floats c(static_cast<std::size_t>(m * n));
      run_blocks(module->find("matmul"), grid, a.data(), b.data(), c.data(), m, n, k);
      for (std::int32_t i = 0; i < m; ++i) {
        for (std::int32_t j = 0; j < n; ++j) {
          double sum = 0;
          for (std::int32_t l = 0; l < k; ++l) {
            sum += double{a[static_cast<std::size_t>(i * k + l)]} *
                   b[static_cast<std::size_t>(l * n + j)];
          }
          ASSERT_NEAR(c[static_cast<std::size_t>(i * n + j)], sum, 2e-5);
        }
      }
      first = first.empty() ? c : first;
      EXPECT_EQ(first, c);
    }
  }
}

TEST(Kernels, OfRowsAgreeWithTheReference) {
  const std::int32_t rows = 9, columns = 77;
  const auto n = static_cast<std::size_t>(rows * columns);
  const floats x = random_floats(n, 1);
  const floats gain = random_floats(77, 2);
  const floats shift = random_floats(77, 3);
  floats first_soft, first_norm;
  for (const auto& module : all_levels()) {
    floats soft(n), norm(n);
    run_blocks(module->find("softmax"), {4, 1, 1}, x.data(), soft.data(), rows, columns);
    run_blocks(module->find("layer_norm"), {2, 2, 1}, x.data(), gain.data(), shift.data(),
               norm.data(), rows, columns, 1e-5F);
    for (std::size_t r = 0; r < 9; ++r) {
      const float* row = x.data() + r * 77;
      const double max = *std::max_element(row, row + 77);
      double weight = 0, sum = 0, squares = 0;
      for (std::size_t i = 0; i < 77; ++i) {
        weight += std::exp(row[i] - max);
        sum += row[i];
      }
      for (std::size_t i = 0; i < 77; ++i) {
        squares += (row[i] - sum / 77) * (row[i] - sum / 77);
      }
      for (std::size_t i = 0; i < 77; ++i) {
        const double p = std::exp(row[i] - max) / weight;
        ASSERT_NEAR(soft[r * 77 + i], p, 1e-6 * p + 1e-12);
        const double unit = (row[i] - sum / 77) / std::sqrt(squares / 77 + 1e-5);
        ASSERT_NEAR(norm[r * 77 + i], unit * gain[i] + shift[i], 2e-6);
      }
    }
    first_soft = first_soft.empty() ? soft : first_soft;
    first_norm = first_norm.empty() ? norm : first_norm;
    EXPECT_EQ(first_soft, soft);
    EXPECT_EQ(first_norm, norm);
  }
}

TEST(Kernels, OfVectorsCoverThemWhateverTheGrid) {
  const auto module = or_throw(load_module(test::demo_fatbin()));
  for (const std::int64_t n : {0, 1, 5, 1000}) {
    for (const extents grid : {extents{1, 1, 1}, extents{7, 1, 1}, extents{2, 3, 4}}) {
      const floats x = random_floats(static_cast<std::size_t>(n), 1);
      const floats y = random_floats(static_cast<std::size_t>(n), 2);
      floats z = y;
      run_blocks(module->find("saxpy"), grid, x.data(), z.data(), n, 1.5F);
      double sum = 0;
      for (std::size_t i = 0; i < z.size(); ++i) {
        ASSERT_EQ(z[i], y[i] + 1.5F * x[i]) << i << " of " << n;
        sum += x[i];
      }
      float total = 0;
      run_blocks(module->find("atomic_sum"), grid, x.data(), &total, n);
      EXPECT_NEAR(total, sum, 1e-3);
      EXPECT_EQ(module->find("atomic_sum")->record.flags, 0U);
    }
  }
}

TEST(Kernels, OfThreadsWithBarriersSumTheirBlock) {
  const auto module = or_throw(load_module(test::demo_fatbin()));
  const loaded_kernel* kernel = module->find("block_sum");
  ASSERT_TRUE(kernel->per_thread());
  ASSERT_EQ(kernel->block_entry(), nullptr);
  const floats x = random_floats(1001, 1);
  for (const extents shape : {extents{1, 1, 1}, extents{5, 1, 1}, extents{2, 2, 2}}) {
    const std::int32_t threads = shape[0] * shape[1] * shape[2];
    floats sums(3, -1);
    const byte_vector args = packed(*kernel, x.data(), sums.data(), std::int64_t{1001});
    for (std::int32_t b = 0; b < 3; ++b) {
      meeting m{std::barrier<>(threads), 0};
      floats shared(static_cast<std::size_t>(threads));
      tessBlockContext c = block_context({3, 1, 1}, shape, b);
      c.shared = shared.data();
      c.sharedBytes = shared.size() * sizeof(float);
      c.runtime = &m;
      std::vector<std::thread> running;
      for (std::int32_t t = 0; t < threads; ++t) {
        running.emplace_back([&, t] {
          const std::array<std::int32_t, 3> index{t % shape[0], t / shape[0] % shape[1],
                                                  t / shape[0] / shape[1]};
          EXPECT_EQ(kernel->thread_entry()(&c, index.data(), args.data()), 0);
        });
      }
      for (std::thread& t : running) {
        t.join();
      }
    }
    double sum = 0;
    for (const float v : x) {
      sum += v;
    }
    EXPECT_NEAR(sums[0] + sums[1] + sums[2], sum, 1e-3) << threads;
  }
}

/// Runs all blocks at once and returns the number of steps that the kernel has stored.
std::int64_t run_persistent(const loaded_kernel* kernel, floats& a, floats& b,
                            std::int64_t steps, std::int64_t meetings) {
  constexpr std::int32_t blocks = 3;
  std::int64_t done = 0;
  const byte_vector args = packed(*kernel, a.data(), b.data(), &done,
                                  static_cast<std::int64_t>(a.size()), steps);
  meeting m{std::barrier<>(blocks), meetings};
  std::vector<std::thread> running;
  for (std::int32_t i = 0; i < blocks; ++i) {
    running.emplace_back([&, i] {
      tessBlockContext c = block_context({blocks, 1, 1}, {1, 1, 1}, i);
      c.runtime = &m;
      EXPECT_EQ(kernel->block_entry()(&c, args.data()), 0);
    });
  }
  for (std::thread& t : running) {
    t.join();
  }
  return done;
}

TEST(Kernels, ThatPersistMeetAfterEveryStepAndStopOnRequest) {
  const auto module = or_throw(load_module(test::demo_fatbin()));
  const loaded_kernel* kernel = module->find("persistent_heat");
  floats a = random_floats(50, 1);
  floats b(50);
  floats expected = a;
  for (int step = 0; step < 6; ++step) {
    floats next = expected;
    for (std::size_t i = 1; i + 1 < next.size(); ++i) {
      next[i] = 0.25F * expected[i - 1] + 0.5F * expected[i] + 0.25F * expected[i + 1];
    }
    expected = next;
  }
  EXPECT_EQ(run_persistent(kernel, a, b, 6, 1000), 6);
  EXPECT_EQ(a, expected);
  EXPECT_EQ(run_persistent(kernel, a, b, -1, 17), 17);
}

TEST(Kernels, RefuseSizesThatMakeNoSense) {
  const auto module = or_throw(load_module(test::demo_fatbin()));
  const loaded_kernel* kernel = module->find("matmul");
  const floats none;
  const byte_vector args =
      packed(*kernel, none.data(), none.data(), none.data(), 1, -1, 1);
  const tessBlockContext c = block_context({1, 1, 1}, {1, 1, 1}, 0);
  EXPECT_NE(kernel->block_entry()(&c, args.data()), 0);
}

TEST(Kernels, OfTheDemoHaveTheLayoutOfTheSpecificationsExample) {
  const auto module = or_throw(load_module(test::demo_fatbin()));
  const loaded_kernel* kernel = module->find("flash_attention_fused");
  EXPECT_EQ(kernel->arguments, (argument_extent{0x34, 0x38}));
  EXPECT_EQ(kernel->record.default_block, (std::array<std::uint32_t, 3>{128, 1, 1}));
  EXPECT_NE(kernel->record.flags & TESS_KERNEL_DETERMINISTIC, 0U);
}

}  // namespace
}  // namespace weir::tessera
