// SPDX-License-Identifier: Apache-2.0
/// @file
/// Expected results of the kernels on vectors.
#include "cases/case_support.hpp"
#include "device/cuda/launch_facts.hpp"

namespace weir::tessera::test {
namespace {

std::string saxpy_case(const kernel_runner& run, shape grid, shape block, std::size_t n) {
  const std::vector<float> x = some_floats(n, 1, true);
  std::vector<float> y = some_floats(n, 2, true);
  std::vector<float> expected = y;
  for (std::size_t i = 0; i < n; ++i) {
    const float product = 1.7F * x[i];
    expected[i] = plain(expected[i] + product);
  }
  launch_maker m("saxpy", grid, block);
  m.memory(x).memory(y).number(static_cast<std::int64_t>(n)).number(1.7F);
  const std::string fault = run(m.made());
  return fault.empty() ? difference(y, expected) : fault;
}

std::string block_sum_case(const kernel_runner& run, shape grid, shape block,
                           std::size_t n) {
  const std::vector<float> x = some_floats(n, 3);
  const std::size_t blocks = std::size_t{grid[0]} * grid[1] * grid[2];
  const std::size_t threads = std::size_t{block[0]} * block[1] * block[2];
  std::vector<float> sums(blocks, -1.0F);
  std::vector<float> expected(blocks);
  for (std::size_t b = 0; b < blocks; ++b) {
    std::vector<float> part(threads);
    for (std::size_t t = 0; t < threads; ++t) {
      for (std::size_t i = b * threads + t; i < n; i += threads * blocks) {
        part[t] += x[i];
      }
    }
    std::size_t width = 1;
    while (width < threads) {
      width += width;
    }
    for (width /= 2; width > 0; width /= 2) {
      for (std::size_t t = 0; t < width && t + width < threads; ++t) {
        part[t] = part[t] + part[t + width];
      }
    }
    expected[b] = plain(part[0]);
  }
  launch_maker m("block_sum", grid, block);
  m.memory(x).memory(sums).number(static_cast<std::int64_t>(n));
  const std::string fault = run(m.made());
  return fault.empty() ? difference(sums, expected) : fault;
}

// The sums are whole numbers, which are exact in every order.
std::string atomic_sum_case(const kernel_runner& run, shape grid, shape block,
                            std::size_t n) {
  std::vector<float> x(n);
  std::vector<float> total(1, 5.0F);
  float sum = 5.0F;
  for (std::size_t i = 0; i < n; ++i) {
    x[i] = static_cast<float>(i % 17);
    sum += x[i];
  }
  launch_maker m("atomic_sum", grid, block);
  m.memory(x).memory(total).number(static_cast<std::int64_t>(n));
  const std::string fault = run(m.made());
  return fault.empty() ? difference(total, {sum}) : fault;
}

std::string heat_case(const kernel_runner& run, shape grid, shape block, std::size_t n,
                      std::int64_t steps, bool stop) {
  std::vector<float> a = some_floats(n, 4);
  std::vector<float> b(n);
  std::vector<float> now = a;
  const std::int64_t done_steps = stop ? 1 : steps;
  for (std::int64_t s = 0; s < done_steps; ++s) {
    std::vector<float> next = now;
    for (std::size_t i = 1; i + 1 < n; ++i) {
      next[i] = plain((0.25F * now[i - 1] + 0.5F * now[i]) + 0.25F * now[i + 1]);
    }
    now = next;
  }
  std::vector<std::int64_t> done(1, 0);
  const std::vector<std::uint32_t> request(1, stop ? 1U : 0U);
  std::vector<std::uint32_t> barrier(16);
  cuda::launch_facts facts{};
  facts.stop = request.data();
  facts.barrier = barrier.data();
  launch_maker m("persistent_heat", grid, block);
  m.memory(a).memory(b).memory(done).number(static_cast<std::int64_t>(n)).number(steps);
  m.number(facts).reachable(barrier).reachable(request).cooperative();
  const std::string fault = run(m.made());
  if (!fault.empty()) {
    return fault;
  }
  const std::string other = difference(done, {stop ? 0 : steps});
  return other.empty() ? difference(done_steps % 2 == 0 ? a : b, now) : other;
}

}  // namespace

void add_vector_cases(std::vector<kernel_case>& cases, bool large) {
  const shape grid = large ? shape{7, 2, 1} : shape{3, 1, 1};
  const shape block = large ? shape{128, 1, 1} : shape{2, 2, 2};
  const std::size_t n = large ? 5000 : 61;
  cases.push_back({"saxpy", true, [=](const kernel_runner& run) {
                     return saxpy_case(run, grid, block, n);
                   }});
  cases.push_back({"block_sum", true, [=](const kernel_runner& run) {
                     return block_sum_case(run, grid, block, n);
                   }});
  cases.push_back({"block_sum of an odd block", true, [=](const kernel_runner& run) {
                     return block_sum_case(run, {2, 1, 1}, {large ? 333U : 5U, 1, 1}, n);
                   }});
  cases.push_back({"atomic_sum", true, [=](const kernel_runner& run) {
                     return atomic_sum_case(run, grid, block, n);
                   }});
  cases.push_back({"persistent_heat", true, [=](const kernel_runner& run) {
                     return heat_case(run, {3, 1, 1}, {large ? 64U : 4U, 1, 1},
                                      large ? 500 : 31, 5, false);
                   }});
  cases.push_back({"persistent_heat, stopped", false, [=](const kernel_runner& run) {
                     return heat_case(run, {2, 1, 1}, {4, 1, 1}, 20, -1, true);
                   }});
}

}  // namespace weir::tessera::test
