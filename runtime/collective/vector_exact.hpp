// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sums that are rounded once. Blocks of elements go through fp64 with a check that
/// nothing was lost; blocks where something was, through two doubles; elements that need
/// more, through the long accumulator.
#pragma once

#include "collective/exact_number.hpp"
#include "collective/tile_loops.hpp"
#include "collective/vector_sum.hpp"

namespace weir::runtime {

/// What an exact sum of elements of type S is rounded to.
template <class S>
struct exact_target {
  static constexpr int precision = std::is_same_v<S, float>    ? 24
                                   : std::is_same_v<S, double> ? 53
                                                               : 8;
  static constexpr int least = std::is_same_v<S, float>    ? -149
                               : std::is_same_v<S, double> ? -1074
                                                           : -133;
};

template <class S>
struct vector_exact {
  using V = lanes_t<double, 32>;
  using M = lanes_t<std::int64_t, 32>;
  static constexpr std::size_t width = 4;
  static constexpr std::size_t vectors = 4;
  static constexpr std::size_t block_elements = width * vectors;

  WEIR_INLINE static void load(const std::byte* from, V& to) noexcept {
    if constexpr (std::is_same_v<S, double>) {
      load_lanes(from, to);
    } else if constexpr (std::is_same_v<S, float>) {
      lanes_t<float, 16> narrow;
      load_lanes(from, narrow);
      to = __builtin_convertvector(narrow, V);
    } else {
      lanes_t<std::uint16_t, 8> codes;
      load_lanes(from, codes);
      const auto bits = __builtin_convertvector(codes, lanes_t<std::uint32_t, 16>) << 16;
      lanes_t<float, 16> narrow;
      __builtin_memcpy(&narrow, &bits, sizeof narrow);
      to = __builtin_convertvector(narrow, V);
    }
  }

  /// sum + lost == sum + x, where the right hand sum is rounded.
  WEIR_INLINE static void two_sum(V& sum, const V& x, V& lost) noexcept {
    const V total = sum + x;
    const V part = total - sum;
    lost = (sum - (total - part)) + (x - part);
    sum = total;
  }

  /// Sums of one block: `high` alone, or `high + low`. Lanes of `lost` are not zero where
  /// a sum needs more; infinities and NaN count as that.
  template <bool TwoDoubles>
  WEIR_INLINE static void sums(const std::byte* const* inputs, std::size_t ranks,
                               std::size_t at, V* high, V* low, M* lost) noexcept {
    for (std::size_t v = 0; v < vectors; ++v) {
      load(inputs[0] + at + v * width * sizeof(S), high[v]);
      low[v] = V{};
      lost[v] = M{};
    }
    for (std::size_t r = 1; r < ranks; ++r) {
      for (std::size_t v = 0; v < vectors; ++v) {
        V x;
        load(inputs[r] + at + v * width * sizeof(S), x);
        V rest;
        two_sum(high[v], x, rest);
        if constexpr (TwoDoubles) {
          V rest_of_rest;
          two_sum(low[v], rest, rest_of_rest);
          lost[v] |= rest_of_rest != V{};
        } else {
          lost[v] |= rest != V{};
        }
      }
    }
  }

  WEIR_INLINE static bool any(const M& mask) noexcept {
    return ((mask[0] | mask[1]) | (mask[2] | mask[3])) != 0;
  }

  /// high + low rounded to odd, so that rounding it again is rounding the sum.
  WEIR_INLINE static void to_odd(V& high, const V& low) noexcept {
    V sum = high;
    V rest;
    two_sum(sum, low, rest);
    M bits;
    M rest_bits;
    __builtin_memcpy(&bits, &sum, sizeof bits);
    __builtin_memcpy(&rest_bits, &rest, sizeof rest_bits);
    const M adjust = M(rest != V{}) & M((bits & 1) == 0);
    // One step away from zero, or towards it where the rest has the other sign.
    bits += adjust & (((bits ^ rest_bits) >> 63) | 1);
    V odd;
    __builtin_memcpy(&odd, &bits, sizeof odd);
    high = low == V{} ? high : odd;  // keeps the sign of a zero
  }

  /// Elements of one block of sums.
  WEIR_INLINE static void finish(const V& sum, std::uint32_t divisor, S* to) noexcept {
    V value = sum;
    if (divisor > 1) {
      value /= static_cast<double>(divisor);
    }
    if constexpr (std::is_same_v<S, float>) {
      using F = lanes_t<float, 16>;
      F narrow = __builtin_convertvector(value, F);
      const F nan = F{} + canonical(std::numeric_limits<float>::quiet_NaN());
      narrow = narrow == narrow ? narrow : nan;
      __builtin_memcpy(to, &narrow, sizeof narrow);
    } else {
      for (std::size_t i = 0; i < width; ++i) {
        to[i] = finished<S>(static_cast<double>(value[i]), 0);
      }
    }
  }

  WEIR_INLINE static S slow_element(const std::byte* const* inputs, std::size_t ranks,
                                    std::size_t at, std::uint32_t divisor) noexcept {
    exact_number sum;
    for (std::size_t r = 0; r < ranks; ++r) {
      S x;
      __builtin_memcpy(&x, inputs[r] + at, sizeof x);
      sum.add(widened<double>(x));
    }
    const double value =
        divisor > 1 ? sum.rounded(53, -1074) / static_cast<double>(divisor)
                    : sum.rounded(exact_target<S>::precision, exact_target<S>::least);
    return finished<S>(value, 0);
  }

  WEIR_INLINE static void slow_block(const std::byte* const* inputs, std::size_t ranks,
                                     std::size_t at, std::uint32_t divisor,
                                     S* to) noexcept {
    V high[vectors];
    V low[vectors];
    M lost[vectors];
    sums<true>(inputs, ranks, at, high, low, lost);
    for (std::size_t v = 0; v < vectors; ++v) {
      if (divisor > 1 || std::is_same_v<S, double>) {
        high[v] = low[v] == V{} ? high[v] : high[v] + low[v];
      } else {
        to_odd(high[v], low[v]);
      }
      finish(high[v], divisor, to + v * width);
      for (std::size_t i = 0; i < width; ++i) {
        if (lost[v][i] != 0) {
          const std::size_t element = v * width + i;
          to[element] = slow_element(inputs, ranks, at + element * sizeof(S), divisor);
        }
      }
    }
  }

  WEIR_INLINE static void block(const std::byte* const* inputs, std::size_t ranks,
                                std::size_t at, std::uint32_t divisor, S* to) noexcept {
    V high[vectors];
    V low[vectors];
    M lost[vectors];
    sums<false>(inputs, ranks, at, high, low, lost);
    if (any((lost[0] | lost[1]) | (lost[2] | lost[3]))) {
      slow_block(inputs, ranks, at, divisor, to);
      return;
    }
    for (std::size_t v = 0; v < vectors; ++v) {
      finish(high[v], divisor, to + v * width);
    }
  }

  WEIR_INLINE static void run(const std::byte* const* inputs, std::size_t ranks,
                              std::byte* const* outputs, std::size_t output_count,
                              std::size_t count, std::uint32_t divisor) noexcept {
    S result[block_elements];
    std::size_t i = 0;
    for (; i + block_elements <= count; i += block_elements) {
      block(inputs, ranks, i * sizeof(S), divisor, result);
      for (std::size_t o = 0; o < output_count; ++o) {
        __builtin_memcpy(outputs[o] + i * sizeof(S), result, sizeof result);
      }
    }
    for (; i < count; ++i) {
      result[0] = slow_element(inputs, ranks, i * sizeof(S), divisor);
      for (std::size_t o = 0; o < output_count; ++o) {
        __builtin_memcpy(outputs[o] + i * sizeof(S), result, sizeof(S));
      }
    }
  }
};

}  // namespace weir::runtime
