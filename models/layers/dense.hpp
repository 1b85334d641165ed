// SPDX-License-Identifier: Apache-2.0
/// @file
/// Dense layers as tasks: a product is cut into tiles of panels, each of which is a task.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "buffers.hpp"
#include "layers/kernels/table.hpp"
#include "weir/base/error.hpp"
#include "weir/models/panels.hpp"

namespace weir::models::layers {

/// Weights of a tile: about 1 MiB of fp32, which one worker reads in about 50 us.
inline constexpr std::uint64_t tile_weights = std::uint64_t{1} << 18;
/// Rows that a tile computes at a time, so that they stay in the second cache.
inline constexpr int tile_row_block = 96;

/// Returns a matrix of a model after checking it.
/// @error{not_found, there is no such matrix}
/// @error{config_mismatch, it has another shape}
/// @error{corrupt, its panels are not complete}
[[nodiscard]] result<panel_matrix> find_matrix(const weight_source& weights,
                                               const std::string& name,
                                               std::uint64_t outputs,
                                               std::uint64_t inputs);
/// Returns a vector of a model after checking its length.
/// @error{not_found, there is no such vector}
/// @error{config_mismatch, it has another length}
[[nodiscard]] result<const float*> find_vector(const weight_source& weights,
                                               const std::string& name,
                                               std::uint64_t count);

/// Panels [first, first + count) of a matrix.
struct panel_range {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

/// Returns the number of panels of a tile of a matrix. It is a multiple of 8, which the
/// kernels compute side by side, unless it is smaller.
[[nodiscard]] inline std::uint64_t panels_per_tile(const panel_shape& shape) {
  const std::uint64_t fit = tile_weights / (panel_outputs * shape.inputs);
  return fit >= 8 ? fit / 8 * 8 : std::max<std::uint64_t>(fit, 1);
}

/// Calls f(panel_range) for each tile of a matrix and passes on the first error.
template <class F>
[[nodiscard]] result<void> each_tile(const panel_matrix& matrix, F f) {
  const std::uint64_t step = panels_per_tile(matrix.shape);
  for (std::uint64_t p = 0; p < matrix.shape.panels(); p += step) {
    WEIR_CHECK(f(panel_range{p, std::min(step, matrix.shape.panels() - p)}));
  }
  return {};
}

/// Rows of a matrix in memory.
struct row_block {
  const float* data = nullptr;
  std::ptrdiff_t stride = 0;
  int rows = 0;
};

/// Computes out = rows times the panels of a range.
/// @param out  [rows][16 * range.count], rows `out_stride` apart.
void multiply(const layer_kernels& kernels, const panel_matrix& matrix,
              const panel_range& range, const row_block& rows, float* out,
              std::ptrdiff_t out_stride);

/// Computes a tile for some rows, at most `tile_row_block` at a time, and calls
/// take(row, sums) for each row, with the 16 * range.count sums of that row.
template <int slot = 0, class Take>
void multiply_rows(const layer_kernels& kernels, const panel_matrix& matrix,
                   const panel_range& range, const row_block& rows, Take take) {
  const auto columns = static_cast<int>(range.count * panel_outputs);
  float* sums = scratch<float, slot>(tile_row_block * columns);
  for (int first = 0; first < rows.rows; first += tile_row_block) {
    const int count = std::min(tile_row_block, rows.rows - first);
    multiply(kernels, matrix, range,
             {rows.data + first * rows.stride, rows.stride, count}, sums, columns);
    for (int r = 0; r < count; ++r) {
      take(first + r, sums + static_cast<std::ptrdiff_t>(r) * columns);
    }
  }
}

}  // namespace weir::models::layers
