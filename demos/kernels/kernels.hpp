// SPDX-License-Identifier: Apache-2.0
/// @file
/// The kernels of this library, their arguments in the order of the parameter buffer, and
/// helpers. No operation depends on the level of the processor, so all levels give the
/// same bits; a NaN in a result has the canonical bits. The kernels for GPUs beside these
/// (`*.cu`) give the same bits.
///
/// Kernels return 0, or one of `demo_kernels::bad_sizes` and `bad_shared_memory`.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "tessera_kernel.h"

extern "C" {

/// Computes o = softmax(scale q k^T) v for each batch and head.
/// @shape{q, k, v, o: [B, H, L, D], row-major}
struct flash_attention_args {
  const float* q;
  const float* k;
  const float* v;
  float* o;
  std::int32_t B, H, L, D;
  float scale;
};
int flash_attention_fused(const tessBlockContext* block, const void* args);

/// Computes the product c = a b. Every sum runs over k in ascending order.
/// @shape{a: [m, k]; b: [k, n]; c: [m, n]; row-major}
struct matmul_args {
  const float* a;
  const float* b;
  float* c;
  std::int32_t m, n, k;
};
int matmul(const tessBlockContext* block, const void* args);

/// Computes the softmax of each row.
/// @shape{x, y: [rows, columns], row-major}
struct softmax_args {
  const float* x;
  float* y;
  std::int32_t rows, columns;
};
int softmax(const tessBlockContext* block, const void* args);

/// Computes y = (x - mean) / sqrt(variance + epsilon) * gain + shift for each row.
/// @shape{x, y: [rows, columns], row-major; gain, shift: [columns]}
struct layer_norm_args {
  const float* x;
  const float* gain;
  const float* shift;
  float* y;
  std::int32_t rows, columns;
  float epsilon;
};
int layer_norm(const tessBlockContext* block, const void* args);

/// Computes y = a x + y.
/// @shape{x, y: [n]}
struct saxpy_args {
  const float* x;
  float* y;
  std::int64_t n;
  float a;
};
int saxpy(const tessBlockContext* block, const void* args);

/// Computes the sum of a part of x in each block of the grid. Thread t of block i adds
/// x[i * threads + t] and further elements in steps of the number of threads in the grid.
/// Needs 4 bytes of shared memory for each thread, of which there are at most 1024.
/// @shape{x: [n]; sums: [blocks of the grid]}
struct block_sum_args {
  const float* x;
  float* sums;
  std::int64_t n;
};
int block_sum(const tessBlockContext* block, const std::int32_t thread[3],
              const void* args);

/// Adds the sum of x to total[0]. The last bits depend on the order in which blocks end.
/// @shape{x: [n]; total: [1]}
struct atomic_sum_args {
  const float* x;
  float* total;
  std::int64_t n;
};
int atomic_sum(const tessBlockContext* block, const void* args);

/// Simulates diffusion in a rod whose ends keep their values. Steps alternate between the
/// buffers: the first reads a and writes b, the second reads b and writes a. `done` is
/// the number of steps so far. A negative number of steps runs until the kernel is
/// stopped.
/// @shape{a, b: [n]; done: [1]}
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

/// Results of kernels that failed.
enum : int { bad_sizes = 1, bad_shared_memory = 2 };

/// Returns the number of a block in its grid; the first dimension varies fastest.
inline std::int64_t block_number(const tessBlockContext& b) {
  return b.blockIndex[0] +
         std::int64_t{b.grid[0]} *
             (b.blockIndex[1] + std::int64_t{b.grid[1]} * b.blockIndex[2]);
}
/// Returns the number of blocks in the grid.
inline std::int64_t block_count(const tessBlockContext& b) {
  return std::int64_t{b.grid[0]} * b.grid[1] * b.grid[2];
}

/// The range [from, to).
struct slice {
  std::int64_t from, to;
};
/// Returns the part of [0, n) that one block computes. All parts have the same length,
/// but the last ones may be shorter or empty.
inline slice slice_of(const tessBlockContext& b, std::int64_t n) {
  const std::int64_t blocks = block_count(b);
  const std::int64_t each = n / blocks + (n % blocks != 0 ? 1 : 0);
  const std::int64_t from = std::min(block_number(b) * each, n);
  return {from, std::min(from + each, n)};
}

/// Returns the number, or the canonical NaN if it is a NaN: the bits of a NaN that an
/// operation makes depend on the processor.
inline float canonical(float x) {
  return x == x ? x : __builtin_bit_cast(float, 0x7FC00000U);
}

/// Number of sums of which the sum of a row is made.
inline constexpr std::int64_t row_lanes = 32;

/// Returns the sum of f(i) for i in [0, n). Lane l adds every element whose number is l
/// modulo `row_lanes`; then lanes are added in pairs, half their number apart.
template <class F>
double row_sum(std::int64_t n, F f) {
  double lanes[row_lanes] = {};
  std::int64_t i = 0;
  for (; i + row_lanes <= n; i += row_lanes) {
    for (std::int64_t l = 0; l < row_lanes; ++l) {
      lanes[l] += f(i + l);
    }
  }
  for (std::int64_t l = 0; i + l < n; ++l) {
    lanes[l] += f(i + l);
  }
  for (std::int64_t half = row_lanes / 2; half > 0; half /= 2) {
    for (std::int64_t l = 0; l < half; ++l) {
      lanes[l] += lanes[l + half];
    }
  }
  return lanes[0];
}

}  // namespace demo_kernels
