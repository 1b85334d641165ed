// SPDX-License-Identifier: Apache-2.0
/// @file
/// Kernels on vectors: a x + y, and sums with barriers and with an atomic.
#include <atomic>

#include "kernels.hpp"

int saxpy(const tessBlockContext* block, const void* args) {
  const auto& a = *static_cast<const saxpy_args*>(args);
  if (a.n < 0) {
    return demo_kernels::bad_sizes;
  }
  const demo_kernels::slice mine = demo_kernels::slice_of(*block, a.n);
  for (std::int64_t i = mine.from; i < mine.to; ++i) {
    a.y[i] = demo_kernels::canonical(a.y[i] + a.a * a.x[i]);
  }
  return 0;
}

// Threads add their elements, then halve the number of sums until one is left. The order
// of the additions depends only on the numbers of threads and blocks, so the bits do not
// change between runs.
int block_sum(const tessBlockContext* block, const std::int32_t thread[3],
              const void* args) {
  const auto& a = *static_cast<const block_sum_args*>(args);
  const std::int64_t threads =
      std::int64_t{block->block[0]} * block->block[1] * block->block[2];
  const std::int64_t t =
      thread[0] + std::int64_t{block->block[0]} *
                      (thread[1] + std::int64_t{block->block[1]} * thread[2]);
  if (block->sharedBytes < static_cast<std::size_t>(threads) * sizeof(float)) {
    return demo_kernels::bad_shared_memory;
  }
  auto* shared = static_cast<float*>(block->shared);
  const std::int64_t number = demo_kernels::block_number(*block);
  const std::int64_t step = threads * demo_kernels::block_count(*block);
  float sum = 0;
  for (std::int64_t i = number * threads + t; i < a.n; i += step) {
    sum += a.x[i];
  }
  shared[t] = sum;
  std::int64_t half = 1;
  while (half < threads) {
    half *= 2;
  }
  while ((half /= 2) > 0) {
    block->services->barrier(block);
    if (t < half && t + half < threads) {
      shared[t] += shared[t + half];
    }
  }
  if (t == 0) {
    a.sums[number] = demo_kernels::canonical(shared[0]);
  }
  return 0;
}

// Each block adds its elements and then adds its sum to the total.
int atomic_sum(const tessBlockContext* block, const void* args) {
  const auto& a = *static_cast<const atomic_sum_args*>(args);
  if (a.n < 0) {
    return demo_kernels::bad_sizes;
  }
  const demo_kernels::slice mine = demo_kernels::slice_of(*block, a.n);
  float sum = 0;
  for (std::int64_t i = mine.from; i < mine.to; ++i) {
    sum += a.x[i];
  }
  const std::atomic_ref<float> total(a.total[0]);
  float before = total.load();
  while (!total.compare_exchange_weak(before, demo_kernels::canonical(before + sum))) {
  }
  return 0;
}
