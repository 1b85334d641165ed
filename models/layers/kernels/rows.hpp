// SPDX-License-Identifier: Apache-2.0
/// @file
/// Norms, activations and attention. Included once per instruction set.
///
/// Loops over `math::exp`, `silu` and `gelu` become vector code; since the functions are
/// always inlined and nothing is reordered, the bits are those of the scalar functions.
#pragma once

#include "layers/kernels/lanes.hpp"
#include "layers/kernels/table.hpp"

namespace weir::models::layers::WEIR_LAYER_SPACE {

/// Without a mean; the sum has eight chains on every processor.
inline void rms_norm(const norm_call& c) {
  eight squares{};
  for (int i = 0; i < c.width; i += 8) {
    const eight x = load_some(c.row + i, c.width - i);
    squares = multiply_add(x, x, squares);
  }
  const float mean = sum_lanes(squares) / static_cast<float>(c.width);
  const float inverse = 1.0F / __builtin_sqrtf(mean + c.epsilon);
  for (int i = 0; i < c.width; ++i) {
    c.out[i] = c.row[i] * inverse * c.weight[i];
  }
}

/// In two passes, which is exact enough for single precision.
inline void layer_norm(const norm_call& c) {
  const auto count = static_cast<float>(c.width);
  eight sum{};
  for (int i = 0; i < c.width; i += 8) {
    sum = sum + load_some(c.row + i, c.width - i);
  }
  const float mean = sum_lanes(sum) / count;
  eight squares{};
  for (int i = 0; i < c.width; i += 8) {
    const int left = c.width - i;
    eight x = load_some(c.row + i, left) - mean;
    // Lanes behind the row must not count.
    for (int lane = left; lane < 8; ++lane) {
      x[lane] = 0;
    }
    squares = multiply_add(x, x, squares);
  }
  const float inverse = 1.0F / __builtin_sqrtf(sum_lanes(squares) / count + c.epsilon);
  for (int i = 0; i < c.width; ++i) {
    c.out[i] = (c.row[i] - mean) * inverse * c.weight[i] + c.bias[i];
  }
}

/// In place, if `out` is one of the operands.
inline void silu_times(const float* gate, const float* up, float* out, int count) {
  for (int i = 0; i < count; ++i) {
    out[i] = math::silu(gate[i]) * up[i];
  }
}

inline void gelu(const float* in, float* out, int count) {
  for (int i = 0; i < count; ++i) {
    out[i] = math::gelu(in[i]);
  }
}

inline void exponential(const float* in, float* out, int count) {
  for (int i = 0; i < count; ++i) {
    out[i] = math::exp(in[i]);
  }
}

/// Computes the scores of `Blocks` blocks of 64 keys: for each key a chain over the
/// elements of the query.
///
/// Keys lie along columns, so a vector holds the same element of many keys. The chains of
/// two blocks hide the latency of the additions.
template <int Blocks>
WEIR_LAYER_INLINE void block_scores(const attention_call& c, const float* const* keys,
                                    float* scores) {
  constexpr int vectors = block_keys / wide_lanes;
  wide sum[Blocks][vectors];
  for (int b = 0; b < Blocks; ++b) {
    for (int v = 0; v < vectors; ++v) {
      sum[b][v] = wide{};
    }
  }
  for (int d = 0; d < c.width; ++d) {
    // The elements of the query come one after the other.
    const auto q = spread<wide>(c.query[d]);
#pragma GCC unroll 2
    for (int b = 0; b < Blocks; ++b) {
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) {
        const auto k = load_lanes<wide>(keys[b] + d * block_keys + v * wide_lanes);
        sum[b][v] = multiply_add(q, k, sum[b][v]);
      }
    }
  }
  for (int b = 0; b < Blocks; ++b) {
    for (int v = 0; v < vectors; ++v) {
      store_lanes(scores + b * block_keys + v * wide_lanes,
                  sum[b][v] * spread<wide>(c.scale));
    }
  }
}

/// Adds the weighted values of the keys of a segment to `Columns` columns of a sum: for
/// each column a chain over the keys.
///
/// The segment's values are in blocks.
template <int Columns>
WEIR_LAYER_INLINE void add_values(const attention_call& c, const float* const* values,
                                  const float* weights, int keys, int column, float* to) {
  constexpr int vectors = Columns / wide_lanes;
  wide sum[vectors];
  for (int v = 0; v < vectors; ++v) {
    sum[v] = wide{};
  }
  for (int first = 0; first < keys; first += block_keys) {
    const float* row = values[first / block_keys] + column;
    const int count = keys - first < block_keys ? keys - first : block_keys;
    for (int k = 0; k < count; ++k) {
      const auto w = spread<wide>(weights[first + k]);
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) {
        sum[v] = multiply_add(w, load_lanes<wide>(row + v * wide_lanes), sum[v]);
      }
      row += c.width;
    }
  }
  for (int v = 0; v < vectors; ++v) {
    // The sum is that of this segment alone.
    store_lanes(to + column + v * wide_lanes, sum[v]);
  }
}

/// The result of a segment: the largest score, the sum of e^(score - largest), and the
/// values weighted by it.
///
/// Results of segments are joined in their order.
struct segment_result {
  float largest;
  float total;
  alignas(64) float values[max_head_width];
};

/// Returns the largest of some scores. The order of comparisons changes no bit.
///
/// Blocks of scores are read as vectors as far as they go.
WEIR_LAYER_INLINE float largest_score(const float* scores, int keys) {
  float largest = scores[0];
  int k = 0;
  if (keys >= wide_lanes) {
    auto best = load_lanes<wide>(scores);
    for (k = wide_lanes; k + wide_lanes <= keys; k += wide_lanes) {
      const auto x = load_lanes<wide>(scores + k);
      best = x > best ? x : best;
    }
    for (int i = 0; i < wide_lanes; ++i) {
      largest = best[i] > largest ? best[i] : largest;
    }
  }
  for (; k < keys; ++k) {
    largest = scores[k] > largest ? scores[k] : largest;
  }
  return largest;
}

/// Computes the result of one segment.
///
/// Scores of keys behind the last one are not read.
WEIR_LAYER_INLINE void attend_segment(const attention_call& c, int segment,
                                      segment_result& out) {
  alignas(64) float scores[segment_blocks * block_keys] = {};
  const int first = segment * segment_blocks * block_keys;
  const int all = segment_blocks * block_keys;
  const int keys = c.keys - first < all ? c.keys - first : all;
  const float* const* blocks = c.keys_of + segment * segment_blocks;
  int begin = 0;
  for (; keys - begin > block_keys; begin += 2 * block_keys) {
    block_scores<2>(c, blocks + begin / block_keys, scores + begin);
  }
  if (begin < keys) {
    block_scores<1>(c, blocks + begin / block_keys, scores + begin);
  }
  const float largest = largest_score(scores, keys);
  // The exponentials replace the scores.
  for (int k = 0; k < keys; ++k) {
    scores[k] = math::exp(scores[k] - largest);
  }
  eight total{};
  for (int k = 0; k < keys; k += 8) {
    total = total + load_some(scores + k, keys - k);
  }
  out.largest = largest;
  out.total = sum_lanes(total);
  // Wide columns first, as they hide the latency.
  const float* const* values = c.values_of + segment * segment_blocks;
  int column = 0;
  for (; column + 64 <= c.width; column += 64) {
    add_values<64>(c, values, scores, keys, column, out.values);
  }
  for (; column + 32 <= c.width; column += 32) {
    add_values<32>(c, values, scores, keys, column, out.values);
  }
  for (; column < c.width; column += 16) {
    add_values<16>(c, values, scores, keys, column, out.values);
  }
}

/// Combines the result so far with that of the next segment.
///
/// Both sums are scaled to the larger of the two scores.
WEIR_LAYER_INLINE void join_segments(int width, segment_result& sum,
                                     const segment_result& next) {
  const float largest = next.largest > sum.largest ? next.largest : sum.largest;
  const float keep = math::exp(sum.largest - largest);
  const float take = math::exp(next.largest - largest);
  sum.largest = largest;
  sum.total = sum.total * keep + next.total * take;
  for (int i = 0; i < width; ++i) {
    sum.values[i] = sum.values[i] * keep + next.values[i] * take;
  }
}

/// Segments bound the memory, and fix the order of the sums.
inline void attention(const attention_call& c) {
  segment_result sum;
  attend_segment(c, 0, sum);
  const int segments =
      (c.keys + segment_blocks * block_keys - 1) / (segment_blocks * block_keys);
  for (int s = 1; s < segments; ++s) {
    segment_result next;
    attend_segment(c, s, next);
    join_segments(c.width, sum, next);
  }
  // The division comes last.
  for (int i = 0; i < c.width; ++i) {
    c.out[i] = sum.values[i] / sum.total;
  }
}

}  // namespace weir::models::layers::WEIR_LAYER_SPACE
