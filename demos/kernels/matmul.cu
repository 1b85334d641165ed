// SPDX-License-Identifier: Apache-2.0
/// @file
/// The product of matrices for GPUs. An element is one chain of fused products over k,
/// ascending, whatever the block and the grid. It has the name, the parameters and the
/// bits of the kernel for processors (`kernels.hpp`).
#include "kernels/device.hpp"

namespace weir::device_code {

/// Extents of a tile of the result, and of the tiles of the factors along k.
constexpr std::int32_t tile_rows = 8;
constexpr std::int32_t tile_columns = 16;
constexpr std::int32_t tile_depth = 16;

/// Returns element (i, j) of a matrix with `rows` rows and `columns` columns, and 0
/// outside of it.
WEIR_DEVICE float element_or_zero(const float* from, std::int64_t i, std::int64_t j,
                                  std::int64_t rows, std::int64_t columns) noexcept {
  return i < rows && j < columns ? load(from, i * columns + j) : 0.0F;
}

}  // namespace weir::device_code

/// Computes c = a b. A block computes a tile of c, a thread one element of it; a block
/// with fewer threads than a tile has elements goes over the tile several times.
WEIR_KERNEL matmul(const float* a, const float* b, float* c, std::int32_t m,
                   std::int32_t n, std::int32_t k) {
  using namespace weir::device_code;
  WEIR_SHARED(float, left, 128);   // [tile_rows, tile_depth]
  WEIR_SHARED(float, right, 256);  // [tile_depth, tile_columns]
  const std::int64_t across =
      (static_cast<std::int64_t>(n) + tile_columns - 1) / tile_columns;
  const std::int64_t tiles =
      (static_cast<std::int64_t>(m) + tile_rows - 1) / tile_rows * across;
  const std::int32_t t = thread_number();
  const std::int32_t threads = thread_count();
  WEIR_ROLLED
  for (std::int64_t tile = block_number(); tile < tiles; tile += block_count()) {
    const std::int64_t first_row = tile / across * tile_rows;
    const std::int64_t first_column = tile % across * tile_columns;
    WEIR_ROLLED
    for (std::int32_t pass = 0; pass < tile_rows * tile_columns; pass += threads) {
      const std::int32_t mine = pass + t;  // element of the tile
      const std::int32_t row = mine / tile_columns;
      const std::int32_t column = mine % tile_columns;
      float sum = 0;
      WEIR_ROLLED
      for (std::int64_t depth = 0; depth < k; depth += tile_depth) {
        WEIR_ROLLED
        for (std::int32_t e = t; e < tile_rows * tile_depth; e += threads) {
          store(left, e,
                element_or_zero(a, first_row + e / tile_depth, depth + e % tile_depth, m,
                                k));
        }
        WEIR_ROLLED
        for (std::int32_t e = t; e < tile_depth * tile_columns; e += threads) {
          store(right, e,
                element_or_zero(b, depth + e / tile_columns,
                                first_column + e % tile_columns, k, n));
        }
        barrier();
        const std::int64_t rest = k - depth;
        const std::int32_t products =
            rest < tile_depth ? static_cast<std::int32_t>(rest) : tile_depth;
        if (mine < tile_rows * tile_columns) {
          for (std::int32_t p = 0; p < products; ++p) {
            sum = fused(load(left, row * tile_depth + p),
                        load(right, p * tile_columns + column), sum);
          }
        }
        barrier();
      }
      if (mine < tile_rows * tile_columns && first_row + row < m &&
          first_column + column < n) {
        store(c, (first_row + row) * n + first_column + column, canonical(sum));
      }
    }
  }
}
