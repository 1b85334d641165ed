// SPDX-License-Identifier: Apache-2.0
/// @file
/// The kernels of the layers as a table of functions, one table per instruction set, and
/// the arguments of the kernels. The tables give equal bits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::models::layers {

/// Type of the weights of a product. It repeats `weight_type`, because kernels include no
/// other header with functions.
enum class panel_kind : std::uint8_t { f32, q8_0, q4_1 };

/// Inputs of a section of a product.
inline constexpr int section_inputs = 256;

/// out[r][16 p + j] = sum over k, ascending, of rows[r][k] * weight(p, k, j).
///
/// The inputs are divided into sections of 256. Each output is computed in one ascending
/// order: a chain of fused multiply-additions, which begins with 0, for each section, and
/// the sum of the chains so far. Its bits depend on its row and its weights alone.
struct product_call {
  const float* rows = nullptr;  ///< [row_count][inputs], rows `row_stride` apart
  std::ptrdiff_t row_stride = 0;
  int row_count = 0;
  int inputs = 0;
  panel_kind kind = panel_kind::f32;
  const std::byte* panels = nullptr;  ///< `panel_count` panels, one after another
  std::ptrdiff_t panel_bytes = 0;
  int panel_count = 0;
  float* out = nullptr;  ///< [row_count][16 * panel_count], rows `out_stride` apart
  std::ptrdiff_t out_stride = 0;
};

/// A norm of one row of `width` elements. Sums go over eight lanes: element i is added to
/// lane i % 8, and the lanes are added along a fixed tree.
struct norm_call {
  const float* row = nullptr;
  const float* weight = nullptr;
  const float* bias = nullptr;  ///< only for the layer norm
  float* out = nullptr;         ///< may be `row`
  int width = 0;
  float epsilon = 0;
};

/// Keys of a block of the attention.
inline constexpr int block_keys = 64;
/// Blocks of a segment.
inline constexpr int segment_blocks = 4;

/// The attention of one query over the keys [0, keys).
///
/// Keys lie in blocks of 64. Four blocks are a segment, for which a maximum, a sum and a
/// weighted sum of values are computed; segments are combined in ascending order. The
/// bits depend on the keys and their positions alone, and not on how many queries a step
/// has.
struct attention_call {
  const float* query = nullptr;             ///< [width]
  const float* const* keys_of = nullptr;    ///< by block: [width][64]
  const float* const* values_of = nullptr;  ///< by block: [64][width]
  int keys = 0;                             ///< at least 1
  int width = 0;  ///< a multiple of 16, at most `max_head_width`
  float scale = 1;
  float* out = nullptr;  ///< [width]
};
/// Largest width of a head.
inline constexpr int max_head_width = 256;

/// Kernels of one instruction set.
struct layer_kernels {
  const char* name = nullptr;
  void (*product)(const product_call&) = nullptr;
  /// out = row / sqrt(mean of squares + epsilon) * weight
  void (*rms_norm)(const norm_call&) = nullptr;
  /// out = (row - mean) / sqrt(variance + epsilon) * weight + bias
  void (*layer_norm)(const norm_call&) = nullptr;
  /// out[i] = silu(gate[i]) * up[i]
  void (*silu_times)(const float* gate, const float* up, float* out, int count) = nullptr;
  /// out[i] = gelu(in[i]); `out` may be `in`
  void (*gelu)(const float* in, float* out, int count) = nullptr;
  /// out[i] = exp(in[i]); `out` may be `in`
  void (*exponential)(const float* in, float* out, int count) = nullptr;
  void (*attention)(const attention_call&) = nullptr;
};

namespace level_base {
[[nodiscard]] const layer_kernels& layer_table();
}
namespace level_v3 {
[[nodiscard]] const layer_kernels& layer_table();
}
namespace level_v4 {
[[nodiscard]] const layer_kernels& layer_table();
}

}  // namespace weir::models::layers
