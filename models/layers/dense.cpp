// SPDX-License-Identifier: Apache-2.0
/// @file
/// Looks weights up and multiplies rows by ranges of panels.
#include "layers/dense.hpp"

#include <fmt/core.h>

namespace weir::models::layers {

/// The error names the weights, as a file with them may be large.
result<panel_matrix> find_matrix(const weight_source& weights, const std::string& name,
                                 std::uint64_t outputs, std::uint64_t inputs) {
  WEIR_TRY(panel_matrix matrix, weights.matrix(name));
  if (matrix.shape.outputs != outputs || matrix.shape.inputs != inputs) {
    return error(
        errc::config_mismatch,
        fmt::format("weights \"{}\": expected {} outputs x {} inputs, found {} x {}",
                    name, outputs, inputs, matrix.shape.outputs, matrix.shape.inputs));
  }
  // The runs must cover the matrix, because `multiply` does not check them.
  WEIR_CHECK(check_matrix(name, matrix));
  return matrix;
}

/// Vectors are stored in single precision.
result<const float*> find_vector(const weight_source& weights, const std::string& name,
                                 std::uint64_t count) {
  WEIR_TRY(const std::span<const float> vector, weights.vector(name));
  if (vector.size() != count) {
    return error(errc::config_mismatch,
                 fmt::format("weights \"{}\": expected a vector of {} elements, found {}",
                             name, count, vector.size()));
  }
  return vector.data();
}

/// Outputs that the range does not reach stay as they are.
void multiply(const layer_kernels& kernels, const panel_matrix& matrix,
              const panel_range& range, const row_block& rows, float* out,
              std::ptrdiff_t out_stride) {
  product_call call;
  call.rows = rows.data;
  call.row_stride = rows.stride;
  call.row_count = rows.rows;
  call.inputs = static_cast<int>(matrix.shape.inputs);
  call.kind = static_cast<panel_kind>(static_cast<int>(matrix.shape.type));
  call.panel_bytes = static_cast<std::ptrdiff_t>(matrix.shape.panel_bytes());
  call.out_stride = out_stride;
  // One call for each run that the range touches.
  for (const panel_run& run : matrix.runs) {
    // A run ends where the next run begins.
    const std::uint64_t end = run.first + run.bytes.size() / matrix.shape.panel_bytes();
    const std::uint64_t first = std::max(range.first, run.first);
    const std::uint64_t last = std::min(range.first + range.count, end);
    if (first < last) {
      // Results stand at the place of the panel inside the range.
      call.panels = panel_address(matrix, first);
      call.panel_count = static_cast<int>(last - first);
      call.out = out + (first - range.first) * panel_outputs;
      kernels.product(call);
    }
  }
}

}  // namespace weir::models::layers
