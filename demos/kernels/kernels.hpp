// SPDX-License-Identifier: Apache-2.0
/// @file
/// The kernels of this library: their arguments, in the order of the parameter buffer,
/// and what they share. Nothing here needs a run-time library, and no operation depends
/// on the level of the processor, so all levels give the same bits.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "tessera_kernel.h"

extern "C" {

/// o = softmax(scale q k^T) v for each batch and head; all are [B, H, L, D], row-major.
struct flash_attention_args {
  const float* q;
  const float* k;
  const float* v;
  float* o;
  std::int32_t B, H, L, D;
  float scale;
};
int flash_attention_fused(const tessBlockContext* block, const void* args);

/// c = a b: [m, k] times [k, n]; every sum runs over k in order.
struct matmul_args {
  const float* a;
  const float* b;
  float* c;
  std::int32_t m, n, k;
};
int matmul(const tessBlockContext* block, const void* args);

/// y = softmax of each of `rows` rows of `columns`.
struct softmax_args {
  const float* x;
  float* y;
  std::int32_t rows, columns;
};
int softmax(const tessBlockContext* block, const void* args);

/// y = (x - mean) / sqrt(variance + epsilon) * gain + shift, by rows.
struct layer_norm_args {
  const float* x;
  const float* gain;
  const float* shift;
  float* y;
  std::int32_t rows, columns;
  float epsilon;
};
int layer_norm(const tessBlockContext* block, const void* args);

/// y = a x + y, n elements.
struct saxpy_args {
  const float* x;
  float* y;
  std::int64_t n;
  float a;
};
int saxpy(const tessBlockContext* block, const void* args);

/// sums[i] = sum of what the threads of block i read: x[i * threads + thread], and so on
/// in steps of all threads of the grid. One float of `sums` per block of the grid; 4
/// bytes of shared memory per thread, at most 1024 threads.
struct block_sum_args {
  const float* x;
  float* sums;
  std::int64_t n;
};
int block_sum(const tessBlockContext* block, const std::int32_t thread[3],
              const void* args);

/// Adds the sum of x to total[0]; the order of blocks changes its last bits.
struct atomic_sum_args {
  const float* x;
  float* total;
  std::int64_t n;
};
int atomic_sum(const tessBlockContext* block, const void* args);

/// Steps of diffusion between two rods of n cells, ends fixed: odd steps write b, even
/// ones a; `done` counts them. A negative number of steps runs until it is stopped.
struct persistent_heat_args {
  float* a;
  float* b;
  std::int64_t* done;
  std::int64_t n;
  std::int64_t steps;
};
int persistent_heat(const tessBlockContext* block, const void* args);

/// Does nothing.
int empty(const tessBlockContext* block, const void* args);

}  // extern "C"

namespace demo_kernels {

/// What kernels return beside 0.
enum : int { bad_sizes = 1, bad_shared_memory = 2 };

inline std::int64_t block_number(const tessBlockContext& b) {
  return b.blockIndex[0] +
         std::int64_t{b.grid[0]} *
             (b.blockIndex[1] + std::int64_t{b.grid[1]} * b.blockIndex[2]);
}
inline std::int64_t block_count(const tessBlockContext& b) {
  return std::int64_t{b.grid[0]} * b.grid[1] * b.grid[2];
}

/// Part of [0, n) that belongs to one block: all parts but the last are equally long.
struct slice {
  std::int64_t from, to;
};
inline slice slice_of(const tessBlockContext& b, std::int64_t n) {
  const std::int64_t blocks = block_count(b);
  const std::int64_t each = n / blocks + (n % blocks != 0 ? 1 : 0);
  const std::int64_t from = std::min(block_number(b) * each, n);
  return {from, std::min(from + each, n)};
}

/// e^x, relative error below 3e-7 from -87 to 88; 0 below.
inline float exponential(float x) {
  constexpr float shift = 12582912.0F;  // 1.5 * 2^23: adding it rounds to a whole number
  constexpr float log2_e = 1.44269504F;
  constexpr float ln2_high = 0.693359375F;
  constexpr float ln2_low = -2.12194440e-4F;
  const float moved = x * log2_e + shift;
  const float whole = moved - shift;
  const float r = (x - whole * ln2_high) - whole * ln2_low;
  float p = 1.0F / 5040;
  p = p * r + 1.0F / 720;
  p = p * r + 1.0F / 120;
  p = p * r + 1.0F / 24;
  p = p * r + 1.0F / 6;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  const std::uint32_t power =
      std::bit_cast<std::uint32_t>(moved) - std::bit_cast<std::uint32_t>(shift) + 127;
  return x < -87.0F ? 0.0F : p * std::bit_cast<float>(power << 23);
}

}  // namespace demo_kernels
