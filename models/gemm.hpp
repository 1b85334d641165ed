// SPDX-License-Identifier: Apache-2.0
/// @file
/// Dense products behind one header: oneDNN for fp32, plain loops for fp64 (checks only).
#pragma once

#include <cstdint>
#include <string>

namespace weir::models {

enum class form : std::uint8_t { plain, transposed };

/// c = op(a) op(b) + beta c, row-major; op(a) is m x k, op(b) is k x n; strides in
/// elements. One thread; equal arguments give equal bits on one kernel set.
/// @threads{safe to call concurrently}
void gemm(form fa, form fb, std::int64_t m, std::int64_t n, std::int64_t k,
          const float* a, std::int64_t a_stride, const float* b, std::int64_t b_stride,
          float beta, float* c, std::int64_t c_stride);
void gemm(form fa, form fb, std::int64_t m, std::int64_t n, std::int64_t k,
          const double* a, std::int64_t a_stride, const double* b, std::int64_t b_stride,
          double beta, double* c, std::int64_t c_stride);

/// Library, version and instruction set of the fp32 products, e.g. "onednn-2.6.3/avx2".
[[nodiscard]] std::string gemm_name();

}  // namespace weir::models
