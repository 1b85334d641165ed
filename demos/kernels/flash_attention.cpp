// SPDX-License-Identifier: Apache-2.0
/// @file
/// Attention without a matrix of weights in memory. Keys are visited in tiles. The sums
/// so far are relative to the largest score so far, and are scaled down when a tile has a
/// larger one.
/// @source{Dao et al., "FlashAttention", NeurIPS 2022}
#include <cmath>
#include <limits>

#include "kernels.hpp"
#include "weir/base/math/elementary.hpp"

namespace {

constexpr std::int64_t key_tile = 64;

// Returns the inner product of two rows of n elements.
float inner_product(const float* a, const float* b, std::int64_t n) {
  // Eight independent sums, so that the compiler can use vector instructions. Their
  // number and the order of the last additions are fixed, so all levels give the same
  // bits.
  float sums[8] = {};
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int j = 0; j < 8; ++j) {
      sums[j] = std::fma(a[i + j], b[i + j], sums[j]);
    }
  }
  float rest = 0;
  for (; i < n; ++i) {
    rest = std::fma(a[i], b[i], rest);
  }
  return (((sums[0] + sums[4]) + (sums[2] + sums[6])) +
          ((sums[1] + sums[5]) + (sums[3] + sums[7]))) +
         rest;
}

// Largest score and sum of the weights so far.
struct running_softmax {
  float largest = -std::numeric_limits<float>::infinity();
  float weight = 0;
};

// Adds the first `keys` rows of k and v to the row `o` of the result.
void add_tile(const float* q, const float* k, const float* v, std::int64_t keys,
              std::int64_t D, float scale, running_softmax& state, float* o) {
  float scores[key_tile];
  float largest = state.largest;
  for (std::int64_t j = 0; j < keys; ++j) {
    scores[j] = inner_product(q, k + j * D, D) * scale;
    largest = scores[j] > largest ? scores[j] : largest;
  }
  const float before = weir::math::exp(state.largest - largest);
  float weight = state.weight * before;
  for (std::int64_t d = 0; d < D; ++d) {
    o[d] *= before;
  }
  for (std::int64_t j = 0; j < keys; ++j) {
    const float w = weir::math::exp(scores[j] - largest);
    weight += w;
    for (std::int64_t d = 0; d < D; ++d) {
      o[d] = std::fma(w, v[j * D + d], o[d]);
    }
  }
  state = {largest, weight};
}

}  // namespace

int flash_attention_fused(const tessBlockContext* block, const void* args) {
  const auto& a = *static_cast<const flash_attention_args*>(args);
  if (a.B < 0 || a.H < 0 || a.L < 0 || a.D < 0) {
    return demo_kernels::bad_sizes;
  }
  const std::int64_t L = a.L;
  const std::int64_t D = a.D;
  const std::int64_t rows = std::int64_t{a.B} * a.H * L;
  const std::int64_t blocks = demo_kernels::block_count(*block);
  for (std::int64_t row = demo_kernels::block_number(*block); row < rows; row += blocks) {
    const std::int64_t head = row / L * L;  // first row of this batch and head
    float* o = a.o + row * D;
    std::fill(o, o + D, 0.0F);
    running_softmax state;
    for (std::int64_t j = 0; j < L; j += key_tile) {
      const std::int64_t first = (head + j) * D;
      add_tile(a.q + row * D, a.k + first, a.v + first, std::min(key_tile, L - j), D,
               a.scale, state, o);
    }
    for (std::int64_t d = 0; d < D; ++d) {
      o[d] = demo_kernels::canonical(o[d] / state.weight);
    }
  }
  return 0;
}
