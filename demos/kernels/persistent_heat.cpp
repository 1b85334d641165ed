// SPDX-License-Identifier: Apache-2.0
/// @file
/// A persistent kernel: all its blocks run at the same time and wait for each other at a
/// barrier after every step.
#include "kernels.hpp"

int persistent_heat(const tessBlockContext* block, const void* args) {
  const auto& a = *static_cast<const persistent_heat_args*>(args);
  if (a.n < 0) {
    return demo_kernels::bad_sizes;
  }
  const demo_kernels::slice mine = demo_kernels::slice_of(*block, a.n);
  for (std::int64_t step = 0; a.steps < 0 || step < a.steps; ++step) {
    const float* from = step % 2 == 0 ? a.a : a.b;
    float* to = step % 2 == 0 ? a.b : a.a;
    for (std::int64_t i = mine.from; i < mine.to; ++i) {
      const bool end = i == 0 || i == a.n - 1;
      to[i] = demo_kernels::canonical(
          end ? from[i] : 0.25F * from[i - 1] + 0.5F * from[i] + 0.25F * from[i + 1]);
    }
    if (block->services->gridBarrier(block) != 0) {
      return 0;
    }
    if (demo_kernels::block_number(*block) == 0) {
      *a.done = step + 1;
    }
  }
  return 0;
}

int empty(const tessBlockContext*, const void*) {
  return 0;
}
