// SPDX-License-Identifier: Apache-2.0
/// @file
/// A product of matrices in tiles. The tiles determine which block computes an element,
/// but not the order in which it is summed, so the result does not depend on the grid:
/// each element is one chain of fused products over k, ascending.
#include <cmath>

#include "kernels.hpp"

namespace {

constexpr std::int64_t row_tile = 16;
constexpr std::int64_t column_tile = 64;

// Computes the tile whose first element is (i, j). Tiles at the edges are smaller.
void multiply_tile(const matmul_args& a, std::int64_t i, std::int64_t j) {
  const std::int64_t columns = std::min(column_tile, a.n - j);
  for (const std::int64_t end = std::min<std::int64_t>(i + row_tile, a.m); i < end; ++i) {
    float sums[column_tile] = {};
    for (std::int64_t k = 0; k < a.k; ++k) {
      const float left = a.a[i * a.k + k];
      const float* right = a.b + k * a.n + j;
      for (std::int64_t c = 0; c < columns; ++c) {
        sums[c] = std::fma(left, right[c], sums[c]);
      }
    }
    std::transform(sums, sums + columns, a.c + i * a.n + j, demo_kernels::canonical);
  }
}

}  // namespace

int matmul(const tessBlockContext* block, const void* args) {
  const auto& a = *static_cast<const matmul_args*>(args);
  if (a.m < 0 || a.n < 0 || a.k < 0) {
    return demo_kernels::bad_sizes;
  }
  const std::int64_t across = (a.n + column_tile - 1) / column_tile;
  const std::int64_t tiles = (a.m + row_tile - 1) / row_tile * across;
  const std::int64_t blocks = demo_kernels::block_count(*block);
  for (std::int64_t t = demo_kernels::block_number(*block); t < tiles; t += blocks) {
    multiply_tile(a, t / across * row_tile, t % across * column_tile);
  }
  return 0;
}
