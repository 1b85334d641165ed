// SPDX-License-Identifier: Apache-2.0
/// @file
/// Kernels for GPUs on rows: softmax, layer norm and fused attention. A block computes
/// one row at a time. They have the names, the parameters and the bits of those for
/// processors (`kernels.hpp`).
#include "kernels/device.hpp"

namespace weir::device_code {

/// Number of sums of which the sum of a row is made.
constexpr std::int32_t row_lanes = 32;
/// Number of keys of a tile.
constexpr std::int32_t key_tile = 64;

/// Adds up the `row_lanes` sums of a row in a fixed order. Begins and ends with a
/// barrier; all threads of the block get the sum.
WEIR_DEVICE double sum_of_lanes(double* lanes) noexcept {
  const std::int32_t threads = thread_count();
  WEIR_ROLLED
  for (std::int32_t half = row_lanes / 2; half > 0; half /= 2) {
    barrier();
    WEIR_ROLLED
    for (std::int32_t l = thread_number(); l < half; l += threads) {
      store(lanes, l, load(lanes, l) + load(lanes, l + half));
    }
  }
  barrier();
  return load(lanes, 0);
}

/// Returns the sum of f(i) for i in [0, n): lane l adds every element whose number is l
/// modulo `row_lanes`. Begins and ends with a barrier.
template <class F>
WEIR_DEVICE double row_sum(double* lanes, std::int64_t n, F f) noexcept {
  barrier();
  WEIR_ROLLED
  for (std::int32_t l = thread_number(); l < row_lanes; l += thread_count()) {
    double sum = 0;
    WEIR_ROLLED
    for (std::int64_t i = l; i < n; i += row_lanes) {
      sum += f(i);
    }
    store(lanes, l, sum);
  }
  return sum_of_lanes(lanes);
}

/// Returns the largest element of a row. If one is a NaN, it may be any of the others.
/// Ends with a barrier; between two calls there is another one.
WEIR_DEVICE float largest_of(float* lanes, const float* x, std::int64_t n) noexcept {
  WEIR_ROLLED
  for (std::int32_t l = thread_number(); l < row_lanes; l += thread_count()) {
    float largest = -__builtin_inff();
    WEIR_ROLLED
    for (std::int64_t i = l; i < n; i += row_lanes) {
      const float element = load(x, i);
      largest = element > largest ? element : largest;
    }
    store(lanes, l, largest);
  }
  WEIR_ROLLED
  for (std::int32_t half = row_lanes / 2; half > 0; half /= 2) {
    barrier();
    WEIR_ROLLED
    for (std::int32_t l = thread_number(); l < half; l += thread_count()) {
      const float other = load(lanes, l + half);
      const float mine = load(lanes, l);
      store(lanes, l, other > mine ? other : mine);
    }
  }
  barrier();
  return load(lanes, 0);
}

/// Returns the inner product of two rows of n elements: eight chains of fused products,
/// and a ninth for the last elements.
WEIR_DEVICE float inner_product(const float* a, const float* b, std::int64_t n) noexcept {
  float s0 = 0, s1 = 0, s2 = 0, s3 = 0, s4 = 0, s5 = 0, s6 = 0, s7 = 0;
  std::int64_t i = 0;
  WEIR_ROLLED
  for (; i + 8 <= n; i += 8) {
    s0 = fused(load(a, i), load(b, i), s0);
    s1 = fused(load(a, i + 1), load(b, i + 1), s1);
    s2 = fused(load(a, i + 2), load(b, i + 2), s2);
    s3 = fused(load(a, i + 3), load(b, i + 3), s3);
    s4 = fused(load(a, i + 4), load(b, i + 4), s4);
    s5 = fused(load(a, i + 5), load(b, i + 5), s5);
    s6 = fused(load(a, i + 6), load(b, i + 6), s6);
    s7 = fused(load(a, i + 7), load(b, i + 7), s7);
  }
  float rest = 0;
  WEIR_ROLLED
  for (; i < n; ++i) {
    rest = fused(load(a, i), load(b, i), rest);
  }
  return (((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7))) + rest;
}

}  // namespace weir::device_code

/// Computes the softmax of each row.
WEIR_KERNEL softmax(const float* x, float* y, std::int32_t rows, std::int32_t columns) {
  using namespace weir::device_code;
  WEIR_SHARED(float, largest_lanes, 32);
  WEIR_SHARED(double, weight_lanes, 32);
  WEIR_ROLLED
  for (std::int64_t r = block_number(); r < rows; r += block_count()) {
    const float* in = x + r * columns;
    float* out = y + r * columns;
    const float largest = largest_of(largest_lanes, in, columns);
    WEIR_ROLLED
    for (std::int64_t i = thread_number(); i < columns; i += thread_count()) {
      store(out, i, weir::math::exp(load(in, i) - largest));
    }
    const double weight = row_sum(weight_lanes, columns, [&](std::int64_t i) {
      return static_cast<double>(load(out, i));
    });
    const auto scale = static_cast<float>(1.0 / weight);
    WEIR_ROLLED
    for (std::int64_t i = thread_number(); i < columns; i += thread_count()) {
      store(out, i, canonical(load(out, i) * scale));
    }
  }
}

/// Computes y = (x - mean) / sqrt(variance + epsilon) * gain + shift for each row.
WEIR_KERNEL layer_norm(const float* x, const float* gain, const float* shift, float* y,
                       std::int32_t rows, std::int32_t columns, float epsilon) {
  using namespace weir::device_code;
  WEIR_SHARED(double, lanes, 32);
  WEIR_ROLLED
  for (std::int64_t r = block_number(); r < rows; r += block_count()) {
    const float* in = x + r * columns;
    float* out = y + r * columns;
    const double sum = row_sum(
        lanes, columns, [&](std::int64_t i) { return static_cast<double>(load(in, i)); });
    const double mean = sum / columns;
    const double squares = row_sum(lanes, columns, [&](std::int64_t i) {
      const double distance = static_cast<double>(load(in, i)) - mean;
      return distance * distance;
    });
    const double scale =
        1.0 / square_root(squares / columns + static_cast<double>(epsilon));
    WEIR_ROLLED
    for (std::int64_t i = thread_number(); i < columns; i += thread_count()) {
      const auto unit =
          static_cast<float>((static_cast<double>(load(in, i)) - mean) * scale);
      store(out, i, canonical(unit * load(gain, i) + load(shift, i)));
    }
  }
}

/// Computes O = softmax(scale Q K^T) V. Threads share the keys of a tile, then the
/// columns of the result.
WEIR_KERNEL flash_attention_fused(const float* q, const float* k, const float* v,
                                  float* o, std::int32_t B, std::int32_t H,
                                  std::int32_t L, std::int32_t D, float scale) {
  using namespace weir::device_code;
  WEIR_SHARED(float, scores, 64);
  WEIR_SHARED(float, weights, 64);
  const std::int64_t rows = static_cast<std::int64_t>(B) * H * L;
  WEIR_ROLLED
  for (std::int64_t row = block_number(); row < rows; row += block_count()) {
    const std::int64_t head = row / L * L;  // first row of this batch and head
    float* out = o + row * D;
    float largest = -__builtin_inff();
    float weight = 0;
    WEIR_ROLLED
    for (std::int64_t j = 0; j < L; j += key_tile) {
      const std::int64_t rest = L - j;
      const std::int64_t keys = rest < key_tile ? rest : key_tile;
      WEIR_ROLLED
      for (std::int64_t t = thread_number(); t < keys; t += thread_count()) {
        store(scores, t, inner_product(q + row * D, k + (head + j + t) * D, D) * scale);
      }
      barrier();
      const float before_largest = largest;
      WEIR_ROLLED
      for (std::int64_t t = 0; t < keys; ++t) {
        const float score = load(scores, t);
        largest = score > largest ? score : largest;
      }
      WEIR_ROLLED
      for (std::int64_t t = thread_number(); t < keys; t += thread_count()) {
        store(weights, t, weir::math::exp(load(scores, t) - largest));
      }
      barrier();
      const float before = weir::math::exp(before_largest - largest);
      weight *= before;
      WEIR_ROLLED
      for (std::int64_t t = 0; t < keys; ++t) {
        weight += load(weights, t);
      }
      WEIR_ROLLED
      for (std::int64_t d = thread_number(); d < D; d += thread_count()) {
        float sum = j == 0 ? 0.0F : load(out, d) * before;
        WEIR_ROLLED
        for (std::int64_t t = 0; t < keys; ++t) {
          sum = fused(load(weights, t), load(v, (head + j + t) * D + d), sum);
        }
        store(out, d, sum);
      }
    }
    WEIR_ROLLED
    for (std::int64_t d = thread_number(); d < D; d += thread_count()) {
      store(out, d, canonical(load(out, d) / weight));
    }
  }
}
