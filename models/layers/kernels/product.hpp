// SPDX-License-Identifier: Apache-2.0
/// @file
/// Products of rows and panels. Included once per instruction set.
///
/// A tile keeps the outputs of some rows and panels in registers while it reads the
/// inputs of a section in ascending order, and then adds them to the sums of the sections
/// before. Tiles differ in shape only, so every output is computed in the order that
/// `product_call` defines.
#pragma once

#include <type_traits>

#include "layers/kernels/lanes.hpp"
#include "layers/kernels/table.hpp"

namespace weir::models::layers::WEIR_LAYER_SPACE {

// The forms of AVX-512 intrinsics with a full mask are used, because GCC 12 warns of an
// uninitialised variable in the others. They compile to the plain instructions.

/// Inputs that share scales in the quantised types.
inline constexpr int block_length = 32;

/// Converts 16 or 8 halves, scales or minima of a block, to fp32.
///
/// The result is exact, as fp32 holds every half.
WEIR_LAYER_INLINE wide load_halves(const std::byte* from, int vector) {
  const std::byte* first = from + vector * wide_lanes * 2;
#if defined(__AVX512F__)
  return reinterpret_cast<wide>(_mm512_maskz_cvtph_ps(
      0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(first))));
#elif defined(__F16C__)
  return reinterpret_cast<wide>(
      _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(first))));
#else
  wide v{};
  for (int i = 0; i < wide_lanes; ++i) {
    std::uint16_t bits;
    __builtin_memcpy(&bits, first + 2 * i, sizeof bits);
    v[i] = fp16_to_float(bits);
  }
  return v;
#endif
}

/// Weights of one fp32 panel in a block of inputs.
///
/// Nothing has to be unpacked.
struct f32_block {
  const std::byte* weights;
  static constexpr int bytes = block_length * 16 * 4;

  // The bytes of a block as they are in the panel.
  WEIR_LAYER_INLINE void open(const std::byte* block) { weights = block; }
  /// Returns the weights of input k of the block for the outputs of a vector.
  WEIR_LAYER_INLINE wide at_input(int k, int vector) const {
    wide v;
    __builtin_memcpy(&v, weights + (k * 16 + vector * wide_lanes) * 4, sizeof v);
    return v;
  }
  /// Asks for the weights of an input some lines behind input k, in the second cache. It
  /// does no harm if they are behind the panel.
  WEIR_LAYER_INLINE void fetch_behind(int k) const {
    constexpr int distance = 512;
    __builtin_prefetch(weights + k * 64 + distance, 0, 2);
  }
};

/// Weights of one panel of q8_0 in a block of inputs.
///
/// A weight is a scale times a code.
struct q8_block {
  wide scale[panel_vectors];
  const std::byte* codes;
  static constexpr int bytes = 2 * 16 + block_length * 16;

  WEIR_LAYER_INLINE void open(const std::byte* block) {
    for (int v = 0; v < panel_vectors; ++v) {
      scale[v] = load_halves(block, v);
    }
    codes = block + 2 * 16;
  }
  // Codes are signed bytes.
  WEIR_LAYER_INLINE wide at_input(int k, int vector) const {
    const std::byte* first = codes + k * 16 + vector * wide_lanes;
#if defined(__AVX512F__)
    const __m128i code = _mm_loadu_si128(reinterpret_cast<const __m128i*>(first));
    const __m512 value =
        _mm512_maskz_cvtepi32_ps(0xffff, _mm512_maskz_cvtepi8_epi32(0xffff, code));
    return scale[vector] * reinterpret_cast<wide>(value);
#elif defined(__AVX2__)
    const __m128i code = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(first));
    const __m256 value = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(code));
    return scale[vector] * reinterpret_cast<wide>(value);
#else
    wide value{};
    for (int i = 0; i < wide_lanes; ++i) {
      value[i] = static_cast<float>(static_cast<std::int8_t>(first[i]));
    }
    return scale[vector] * value;
#endif
  }
};

/// Weights of one panel of q4_1 in a block of inputs.
///
/// A weight is a scale times a code, plus a minimum.
struct q4_block {
  wide scale[panel_vectors];
  wide minimum[panel_vectors];
  const std::byte* codes;
  static constexpr int bytes = 2 * 2 * 16 + block_length / 2 * 16;

  WEIR_LAYER_INLINE void open(const std::byte* block) {
    for (int v = 0; v < panel_vectors; ++v) {
      scale[v] = load_halves(block, v);
      minimum[v] = load_halves(block + 2 * 16, v);
    }
    codes = block + 2 * 2 * 16;
  }
  WEIR_LAYER_INLINE wide at_input(int k, int vector) const {
    // Inputs 16 to 31 are in the high halves of the bytes.
    const std::byte* first = codes + k % 16 * 16 + vector * wide_lanes;
    const int shift = k / 16 * 4;
#if defined(__AVX512F__)
    const __m128i code = _mm_loadu_si128(reinterpret_cast<const __m128i*>(first));
    const __m512i pair = _mm512_maskz_cvtepu8_epi32(0xffff, code);
    const __m512i four =
        _mm512_and_epi32(_mm512_maskz_srl_epi32(0xffff, pair, _mm_cvtsi32_si128(shift)),
                         _mm512_set1_epi32(15));
    const auto value = reinterpret_cast<wide>(_mm512_maskz_cvtepi32_ps(0xffff, four));
#elif defined(__AVX2__)
    const __m128i code = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(first));
    const __m256i pair = _mm256_cvtepu8_epi32(code);
    const __m256i four = _mm256_and_si256(
        _mm256_srl_epi32(pair, _mm_cvtsi32_si128(shift)), _mm256_set1_epi32(15));
    const auto value = reinterpret_cast<wide>(_mm256_cvtepi32_ps(four));
#else
    wide value{};
    for (int i = 0; i < wide_lanes; ++i) {
      value[i] = static_cast<float>(static_cast<unsigned>(first[i]) >> shift & 15U);
    }
#endif
    // Not fused, so that unpacked weights have the same bits.
    return scale[vector] * value + minimum[vector];
  }
};

/// Weights of some inputs of a panel, which begin with a section. If `adds` is true, the
/// sums of the sections are added to those that `out` holds.
struct panel_part {
  const std::byte* weights;
  int inputs;
  bool adds;
};

/// Stores the sums of a section, or adds them to the sums of the sections before.
///
/// The order of the sections is fixed.
WEIR_LAYER_INLINE void end_section(float* to, wide sum, bool adds) {
  store_lanes(to, adds ? load_lanes<wide>(to) + sum : sum);
}

/// Computes `Rows` rows of one section of a panel. The accumulators of each vector of the
/// panel are an array of their own: GCC 12 keeps those in registers, and not one array of
/// two dimensions.
template <class Block, int Rows>
WEIR_LAYER_INLINE void panel_section(const product_call& c, const panel_part& part,
                                     const float* rows, float* out) {
  wide first[Rows];
  wide second[Rows];
  for (int r = 0; r < Rows; ++r) {
    first[r] = wide{};
    second[r] = wide{};
  }
  const std::byte* weights = part.weights;
  const std::ptrdiff_t stride = c.row_stride;
  // Block by block, as scales are read once.
  for (int begin = 0; begin < part.inputs; begin += block_length) {
    Block block;
    block.open(weights);
    weights += Block::bytes;
    const int left = part.inputs - begin;
    const int count = left < block_length ? left : block_length;
    // The last block of fp32 may be shorter.
    for (int k = 0; k < count; ++k) {
      const wide low = block.at_input(k, 0);
      wide high{};
      if constexpr (panel_vectors == 2) {
        high = block.at_input(k, 1);
      }
      /// Rows are unrolled, so that the accumulators stay in registers.
      const float* at = rows + begin + k;
#pragma GCC unroll 12
      for (int r = 0; r < Rows; ++r) {
        const auto x = spread<wide>(*at);
        at += stride;
        // The empty statement keeps GCC 12 from using an address register for each row:
        // there are too few, and moving them costs a tenth of the speed (record 425).
        __asm__("" : "+r"(at));
        first[r] = multiply_add(x, low, first[r]);
        if constexpr (panel_vectors == 2) {
          second[r] = multiply_add(x, high, second[r]);
        }
      }
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r) {
    end_section(out + r * c.out_stride, first[r], part.adds);
    if constexpr (panel_vectors == 2) {
      end_section(out + r * c.out_stride + wide_lanes, second[r], part.adds);
    }
  }
}

/// Computes `Rows` rows of one panel, section by section.
///
/// Not inlined, to keep the code small.
template <class Block, int Rows>
__attribute__((noinline)) void panel_tile(const product_call& c, const panel_part& part,
                                          const float* rows, float* out) {
  for (int begin = 0; begin < part.inputs; begin += section_inputs) {
    const int left = part.inputs - begin;
    const panel_part section{part.weights + begin / block_length * Block::bytes,
                             left < section_inputs ? left : section_inputs,
                             part.adds || begin > 0};
    panel_section<Block, Rows>(c, section, rows + begin, out);
  }
}

/// Computes one section of one row of `Panels` panels that follow each other, so that
/// enough chains are under way to hide the latency of the additions.
template <class Block, int Panels>
WEIR_LAYER_INLINE void row_section(const product_call& c, const panel_part& part,
                                   const float* row, float* out) {
  wide first[Panels];
  wide second[Panels];
  for (int p = 0; p < Panels; ++p) {
    first[p] = wide{};
    second[p] = wide{};
  }
  // Panels are a fixed distance apart.
  const std::byte* panels = part.weights;
  for (int begin = 0; begin < part.inputs; begin += block_length) {
    Block block[Panels];
    for (int p = 0; p < Panels; ++p) {
      block[p].open(panels + p * c.panel_bytes);
    }
    panels += Block::bytes;
    const int left = part.inputs - begin;
    const int count = left < block_length ? left : block_length;
    for (int k = 0; k < count; ++k) {
      // One input for all panels.
      const auto x = spread<wide>(row[begin + k]);
#pragma GCC unroll 8
      for (int p = 0; p < Panels; ++p) {
        if constexpr (std::is_same_v<Block, f32_block>) {
          block[p].fetch_behind(k);  // one input is one line of the cache
        }
        first[p] = multiply_add(x, block[p].at_input(k, 0), first[p]);
        if constexpr (panel_vectors == 2) {
          second[p] = multiply_add(x, block[p].at_input(k, 1), second[p]);
        }
      }
    }
  }
  for (int p = 0; p < Panels; ++p) {
    end_section(out + 16 * p, first[p], part.adds);
    if constexpr (panel_vectors == 2) {
      end_section(out + 16 * p + wide_lanes, second[p], part.adds);
    }
  }
}

/// Computes one row of `Panels` panels that follow each other, section by section.
///
/// Used for single rows, as in the drawing of tokens.
template <class Block, int Panels>
__attribute__((noinline)) void row_tile(const product_call& c, const std::byte* panels,
                                        const float* row, float* out) {
  for (int begin = 0; begin < c.inputs; begin += section_inputs) {
    const int left = c.inputs - begin;
    const panel_part section{panels + begin / block_length * Block::bytes,
                             left < section_inputs ? left : section_inputs, begin > 0};
    row_section<Block, Panels>(c, section, row + begin, out);
  }
}

/// Computes a tile of `rows` rows, at most `Rows`.
///
/// The number of rows is a constant in each of the tiles.
template <class Block, int Rows>
WEIR_LAYER_INLINE void rows_tile(const product_call& c, int rows, const panel_part& part,
                                 const float* from, float* out) {
  if constexpr (Rows > 0) {
    if (rows == Rows) {
      panel_tile<Block, Rows>(c, part, from, out);
    } else {
      rows_tile<Block, Rows - 1>(c, rows, part, from, out);
    }
  }
}

/// Computes all rows for a part of a panel, in tiles of nearly equal size: one with few
/// rows would wait for its few chains.
///
/// The rows of the tiles differ by one at most.
template <class Block, int Rows>
WEIR_LAYER_INLINE void all_rows(const product_call& c, const panel_part& part,
                                const float* from, float* out) {
  const int tiles = (c.row_count + Rows - 1) / Rows;
  for (int t = 0, r = 0; t < tiles; ++t) {
    const int rows = c.row_count / tiles + (t < c.row_count % tiles ? 1 : 0);
    rows_tile<Block, Rows>(c, rows, part, from + r * c.row_stride,
                           out + r * c.out_stride);
    r += rows;
  }
}

/// Computes panels one after another, or several side by side for a single row.
///
/// Both orders of the loops give the same bits.
template <class Block, int Rows, int Panels>
WEIR_LAYER_INLINE void product_in_tiles(const product_call& c) {
  if (c.row_count == 1) {
    int p = 0;
    // Side by side as long as there are enough of them.
    for (; p + Panels <= c.panel_count; p += Panels) {
      row_tile<Block, Panels>(c, c.panels + p * c.panel_bytes, c.rows, c.out + 16 * p);
    }
    for (; p < c.panel_count; ++p) {
      row_tile<Block, 1>(c, c.panels + p * c.panel_bytes, c.rows, c.out + 16 * p);
    }
    return;
  }
  for (int p = 0; p < c.panel_count; ++p) {
    all_rows<Block, Rows>(c, {c.panels + p * c.panel_bytes, c.inputs, false}, c.rows,
                          c.out + 16 * p);
  }
}

/// Inputs whose weights are unpacked at a time: those of a section, whose 16 KiB of fp32
/// stay in the first cache.
///
/// The stack holds them.
inline constexpr int unpacked_inputs = section_inputs;
/// Rows from which on a panel is unpacked to fp32 once, and not for each tile of rows.
///
/// Below, unpacking costs more than it saves.
inline constexpr int unpacking_rows = 32;

/// Writes the weights of some inputs of a quantised panel as fp32.
///
/// The number is a multiple of a block.
template <class Block>
WEIR_LAYER_INLINE void unpack(const std::byte* weights, int inputs, float* out) {
  for (int begin = 0; begin < inputs; begin += block_length) {
    Block block;
    block.open(weights);
    weights += Block::bytes;
    for (int k = 0; k < block_length; ++k) {
      for (int v = 0; v < panel_vectors; ++v) {
        store_lanes(out + (begin + k) * 16 + v * wide_lanes, block.at_input(k, v));
      }
    }
  }
}

/// Asks for memory that is read soon. An address behind the last panel does no harm.
///
/// A section is shorter than what the processor's own prefetch needs to get ahead.
WEIR_LAYER_INLINE void fetch_ahead(const std::byte* from, int bytes) {
  constexpr int line = 64;
  for (int i = 0; i < bytes; i += line) {
    __builtin_prefetch(from + i, 0, 2);
  }
}

/// Computes many rows of quantised panels. The unpacked weights are those that other
/// tiles use, so the bits are equal.
///
/// The panel is read once for all rows.
template <class Block, int Rows>
WEIR_LAYER_INLINE void product_unpacked(const product_call& c) {
  alignas(64) float weights[unpacked_inputs * 16];
  for (int p = 0; p < c.panel_count; ++p) {
    const std::byte* panel = c.panels + p * c.panel_bytes;
    for (int begin = 0; begin < c.inputs; begin += unpacked_inputs) {
      const int left = c.inputs - begin;
      const int count = left < unpacked_inputs ? left : unpacked_inputs;
      unpack<Block>(panel, count, weights);
      // The next section, or the first one of the next panel.
      panel += count / block_length * Block::bytes;
      fetch_ahead(panel, unpacked_inputs / block_length * Block::bytes);
      const panel_part part{reinterpret_cast<const std::byte*>(weights), count,
                            begin > 0};
      all_rows<f32_block, Rows>(c, part, c.rows + begin, c.out + 16 * p);
    }
  }
}

/// Computes any number of rows of panels of a quantised type.
///
/// The limit has no influence on the bits.
template <class Block, int Rows, int Panels>
WEIR_LAYER_INLINE void product_quantised(const product_call& c) {
  if (c.row_count >= unpacking_rows) {
    product_unpacked<Block, Rows>(c);
  } else {
    product_in_tiles<Block, Rows, Panels>(c);
  }
}

/// Rows of the largest tile, by the number of registers: 16 with AVX2, 32 with AVX-512.
inline constexpr int tile_rows = wide_lanes == 16 ? 12 : 6;

/// The kind is a value of the enumeration.
inline void product(const product_call& c) {
  // Panels of one row that are computed side by side: enough chains to hide the latency,
  // and few enough streams for the processor's own prefetch (record 425). Quantised ones
  // need registers for their scales, too.
  constexpr int panels = 4;
  switch (c.kind) {
    case panel_kind::f32: product_in_tiles<f32_block, tile_rows, panels>(c); break;
    case panel_kind::q8_0:
      product_quantised<q8_block, tile_rows, panels / panel_vectors>(c);
      break;
    case panel_kind::q4_1:
      product_quantised<q4_block, tile_rows, panels / panel_vectors>(c);
      break;
  }
}

}  // namespace weir::models::layers::WEIR_LAYER_SPACE
