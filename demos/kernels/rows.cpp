// SPDX-License-Identifier: Apache-2.0
/// @file
/// Kernels that work on rows: softmax and layer norm.
#include <cmath>

#include "kernels.hpp"
#include "weir/base/math/elementary.hpp"

namespace {

// Subtracts the largest element first, so that no exponential overflows.
void softmax_row(const float* x, float* y, std::int64_t n) {
  const float largest = *std::max_element(x, x + n);
  for (std::int64_t i = 0; i < n; ++i) {
    y[i] = weir::math::exp(x[i] - largest);
  }
  const double weight =
      demo_kernels::row_sum(n, [&](std::int64_t i) { return double{y[i]}; });
  const auto scale = static_cast<float>(1 / weight);
  for (std::int64_t i = 0; i < n; ++i) {
    y[i] = demo_kernels::canonical(y[i] * scale);
  }
}

// Computes mean and variance in double precision, in two passes.
void layer_norm_row(const layer_norm_args& a, const float* x, float* y) {
  const double sum =
      demo_kernels::row_sum(a.columns, [&](std::int64_t i) { return double{x[i]}; });
  const double mean = sum / a.columns;
  const double squares = demo_kernels::row_sum(
      a.columns, [&](std::int64_t i) { return (x[i] - mean) * (x[i] - mean); });
  const double scale = 1 / std::sqrt(squares / a.columns + a.epsilon);
  for (std::int64_t i = 0; i < a.columns; ++i) {
    const auto unit = static_cast<float>((x[i] - mean) * scale);
    y[i] = demo_kernels::canonical(unit * a.gain[i] + a.shift[i]);
  }
}

// Calls `one` with the offset of each row that this block computes. Blocks take rows in
// turns.
template <class One>
int each_row(const tessBlockContext& block, std::int64_t rows, std::int64_t columns,
             One one) {
  if (rows < 0 || columns < 0) {
    return demo_kernels::bad_sizes;
  }
  const std::int64_t blocks = demo_kernels::block_count(block);
  for (std::int64_t r = demo_kernels::block_number(block); r < rows && columns != 0;
       r += blocks) {
    one(r * columns);
  }
  return 0;
}

}  // namespace

int softmax(const tessBlockContext* block, const void* args) {
  const auto& a = *static_cast<const softmax_args*>(args);
  return each_row(*block, a.rows, a.columns,
                  [&](std::int64_t i) { softmax_row(a.x + i, a.y + i, a.columns); });
}

int layer_norm(const tessBlockContext* block, const void* args) {
  const auto& a = *static_cast<const layer_norm_args*>(args);
  return each_row(*block, a.rows, a.columns,
                  [&](std::int64_t i) { layer_norm_row(a, a.x + i, a.y + i); });
}
