// SPDX-License-Identifier: Apache-2.0
/// @file
/// Dense matrix products: oneDNN for fp32, and plain loops for fp64, which only checks
/// use.
#pragma once

#include <cstdint>
#include <string>

namespace weir::models {

/// Form in which a product takes a matrix: as it is stored, or transposed.
enum class form : std::uint8_t { plain, transposed };

/// Computes c = op(a) op(b) + beta c for row-major matrices.
///
/// op(a) is `a` or its transpose, as `fa` says, and is m x k; op(b) likewise is k x n,
/// and c is m x n. Strides are the distances of rows in elements. With beta = 0, c is
/// only written. The calling thread does all the work. Equal arguments give equal bits as
/// long as `gemm_name` is equal.
/// @threads{safe to call concurrently}
void gemm(form fa, form fb, std::int64_t m, std::int64_t n, std::int64_t k,
          const float* a, std::int64_t a_stride, const float* b, std::int64_t b_stride,
          float beta, float* c, std::int64_t c_stride);
/// Computes the same product in fp64, slowly.
/// @threads{safe to call concurrently}
void gemm(form fa, form fb, std::int64_t m, std::int64_t n, std::int64_t k,
          const double* a, std::int64_t a_stride, const double* b, std::int64_t b_stride,
          double beta, double* c, std::int64_t c_stride);

/// Returns library, version and instruction set of the fp32 products, e.g.
/// "onednn-2.6.3/avx2".
/// @threads{safe to call concurrently}
[[nodiscard]] std::string gemm_name();

}  // namespace weir::models
