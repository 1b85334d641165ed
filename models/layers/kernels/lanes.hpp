// SPDX-License-Identifier: Apache-2.0
/// @file
/// Vectors of fp32. Included once per instruction set, inside the namespace
/// `WEIR_LAYER_SPACE`.
///
/// A `wide` has 16 lanes with AVX-512 and 8 otherwise; it is for work in which lanes
/// never meet. A test defines `WEIR_LAYER_SIXTEEN_LANES`, which gives the code that is
/// compiled for AVX-512 on every processor, with lanes that are computed one by one. An
/// `eight` has eight lanes on every instruction set; sums over lanes use it, so that
/// their order is fixed.
///
/// Code in this namespace must not call functions of other headers that are not always
/// inlined. The linker keeps one copy of such a function for the whole program, and could
/// keep one that was compiled for an instruction set that the processor does not have.
#pragma once

#include <cstddef>
#include <cstdint>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define WEIR_LAYER_INLINE inline __attribute__((always_inline))

namespace weir::models::layers::WEIR_LAYER_SPACE {

typedef float eight __attribute__((vector_size(32)));
#if defined(__AVX512F__) || defined(WEIR_LAYER_SIXTEEN_LANES)
typedef float wide __attribute__((vector_size(64)));
inline constexpr int wide_lanes = 16;
#else
using wide = eight;
inline constexpr int wide_lanes = 8;
#endif
/// Number of vectors that hold the weights of the 16 outputs of a panel for one input.
inline constexpr int panel_vectors = 16 / wide_lanes;

template <class V>
WEIR_LAYER_INLINE V load_lanes(const float* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
template <class V>
WEIR_LAYER_INLINE void store_lanes(float* to, V v) {
  __builtin_memcpy(to, &v, sizeof v);
}
/// Returns a vector whose lanes are all `x`. The subtraction makes the compiler spread
/// `x` over the lanes; x - 0 is x in every bit.
template <class V>
WEIR_LAYER_INLINE V spread(float x) {
  return x - V{};
}

/// Returns a * b + c, rounded once. Where the processor has no such instruction, the
/// library computes equal bits.
WEIR_LAYER_INLINE eight multiply_add(eight a, eight b, eight c) {
#if defined(__FMA__)
  return reinterpret_cast<eight>(_mm256_fmadd_ps(reinterpret_cast<__m256>(a),
                                                 reinterpret_cast<__m256>(b),
                                                 reinterpret_cast<__m256>(c)));
#else
  for (int i = 0; i < 8; ++i) {
    c[i] = __builtin_fmaf(a[i], b[i], c[i]);
  }
  return c;
#endif
}
#if defined(__AVX512F__)
WEIR_LAYER_INLINE wide multiply_add(wide a, wide b, wide c) {
  return reinterpret_cast<wide>(_mm512_fmadd_ps(reinterpret_cast<__m512>(a),
                                                reinterpret_cast<__m512>(b),
                                                reinterpret_cast<__m512>(c)));
}
#elif defined(WEIR_LAYER_SIXTEEN_LANES)
WEIR_LAYER_INLINE wide multiply_add(wide a, wide b, wide c) {
  for (int i = 0; i < wide_lanes; ++i) {
    c[i] = __builtin_fmaf(a[i], b[i], c[i]);
  }
  return c;
}
#endif

/// Returns the sum of eight lanes, in a fixed order.
WEIR_LAYER_INLINE float sum_lanes(eight v) {
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

/// Reads up to eight elements; missing ones are 0, which no sum notices.
WEIR_LAYER_INLINE eight load_some(const float* from, int count) {
  if (count >= 8) {
    return load_lanes<eight>(from);
  }
  eight v{};
  for (int i = 0; i < count; ++i) {
    v[i] = from[i];
  }
  return v;
}

}  // namespace weir::models::layers::WEIR_LAYER_SPACE
