// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sums that are rounded once, by three methods of rising cost. A block of elements is
/// first added in fp64, with a check that the exponents are close enough for every
/// addition to be exact. Blocks that fail the check are added in pairs of doubles, which
/// keep the rounding errors. Elements that need more than that go through the long
/// accumulator.
#pragma once

#include "collective/exact_number.hpp"
#include "collective/kernels/tile_loops.hpp"
#include "collective/kernels/vector_sum.hpp"

namespace weir::collective {

/// The type that an exact sum of elements of type S is rounded to.
template <class S>
struct exact_target {
  static constexpr int precision = std::is_same_v<S, float>    ? 24
                                   : std::is_same_v<S, double> ? 53
                                                               : 8;
  static constexpr int least = std::is_same_v<S, float>    ? -149
                               : std::is_same_v<S, double> ? -1074
                                                           : -133;
};

/// Converts four floats to doubles. g++ 12 would convert them one by one, so the
/// instruction is given.
template <bool Avx2>
WEIR_INLINE void widen_lanes(const lanes_t<float, 16>& from,
                             lanes_t<double, 32>& to) noexcept {
#if defined(__x86_64__) && !defined(__clang__)
  if constexpr (Avx2) {
    asm("vcvtps2pd %1, %0" : "=x"(to) : "xm"(from));
    return;
  }
#endif
  to = __builtin_convertvector(from, lanes_t<double, 32>);
}

/// Exact sums of elements of type S. A block has 16 elements, as 4 vectors of 4 doubles.
template <class S, bool Avx2>
struct vector_exact {
  using V = lanes_t<double, 32>;
  using M = lanes_t<std::int64_t, 32>;
  using U = lanes_t<std::uint32_t, 32>;
  static constexpr std::size_t width = 4;
  static constexpr std::size_t vectors = 4;
  static constexpr std::size_t block_elements = width * vectors;

  /// Loads four elements as doubles, which is exact for all types here.
  WEIR_INLINE static void load(const std::byte* from, V& to) noexcept {
    if constexpr (std::is_same_v<S, double>) {
      load_lanes(from, to);
    } else if constexpr (std::is_same_v<S, float>) {
      lanes_t<float, 16> narrow;
      load_lanes(from, narrow);
      widen_lanes<Avx2>(narrow, to);
    } else {
      lanes_t<std::uint16_t, 8> codes;
      load_lanes(from, codes);
      const auto bits = __builtin_convertvector(codes, lanes_t<std::uint32_t, 16>) << 16;
      lanes_t<float, 16> narrow;
      __builtin_memcpy(&narrow, &bits, sizeof narrow);
      widen_lanes<Avx2>(narrow, to);
    }
  }

  /// Adds x to sum, and returns the rounding error in `lost`: the exact total is sum +
  /// lost (Knuth's two-sum, which needs no order of sizes).
  WEIR_INLINE static void two_sum(V& sum, const V& x, V& lost) noexcept {
    const V total = sum + x;
    const V part = total - sum;
    lost = (sum - (total - part)) + (x - part);
    sum = total;
  }

  /// Adds x to sum and sets bits in `lost` if the sum was rounded: if total - sum is not
  /// x, or total - x is not sum, something was lost. Differences in the sign of a zero do
  /// not count (`any` ignores signs).
  WEIR_INLINE static void checked_sum(V& sum, const V& x, M& lost) noexcept {
    const V total = sum + x;
    const V as_x = total - sum;
    const V as_sum = total - x;
    lost |= (M(as_x) ^ M(x)) | (M(as_sum) ^ M(sum));
    sum = total;
  }

  /// Returns true if a lane has a bit besides the sign.
  WEIR_INLINE static bool any(const M& bits) noexcept {
    const M sizes = bits << 1;
    return ((sizes[0] | sizes[1]) | (sizes[2] | sizes[3])) != 0;
  }

  /// Loads eight elements as the bits of fp32.
  WEIR_INLINE static void load_bits(const std::byte* from, U& to) noexcept {
    if constexpr (std::is_same_v<S, float>) {
      load_lanes(from, to);
    } else {
      lanes_t<std::uint16_t, 16> codes;
      load_lanes(from, codes);
      to = __builtin_convertvector(codes, U) << 16;
    }
  }

  /// Adds one block in fp64. Returns true if all sums are certainly exact: for each
  /// element, the exponents of its inputs, apart from zeros, lie within `spread` of each
  /// other. Infinities and NaN give the right sums in any case.
  WEIR_INLINE static bool quick_sums(const std::byte* const* inputs, std::size_t ranks,
                                     std::size_t offset, std::int32_t spread,
                                     V* sums) noexcept {
    constexpr std::size_t halves = block_elements / 8;
    U largest[halves] = {};
    U smallest[halves];
    for (std::size_t h = 0; h < halves; ++h) {
      smallest[h] = ~U{};
    }
    for (std::size_t v = 0; v < vectors; ++v) {
      sums[v] = -V{};  // -0 is the neutral element: it leaves a sum of -0 as it is
    }
    for (std::size_t r = 0; r < ranks; ++r) {
      const std::byte* const from = inputs[r] + offset;
      for (std::size_t h = 0; h < halves; ++h) {
        U bits;
        load_bits(from + h * 8 * sizeof(S), bits);
        const U size = bits & 0x7FFFFFFFU;
        // zero becomes the largest number and does not count
        const U above_zero = size - 1;
        largest[h] = size > largest[h] ? size : largest[h];
        smallest[h] = above_zero < smallest[h] ? above_zero : smallest[h];
      }
      for (std::size_t v = 0; v < vectors; ++v) {
        V x;
        load(from + v * width * sizeof(S), x);
        sums[v] += x;
      }
    }
    using I = lanes_t<std::int32_t, 32>;
    I wide{};
    for (std::size_t h = 0; h < halves; ++h) {
      wide |= I(largest[h] >> 23) - I(smallest[h] >> 23) > spread;
    }
    M mask;
    __builtin_memcpy(&mask, &wide, sizeof mask);
    return !any(mask);
  }

  /// Returns the largest difference of exponents with which `ranks` inputs add up exactly
  /// in fp64: 52 bits, less those of a fraction and of the carries.
  WEIR_INLINE static std::int32_t exact_spread(std::size_t ranks) noexcept {
    constexpr std::int32_t fraction = exact_target<S>::precision - 1;
    std::int32_t carries = 0;
    while ((std::size_t{1} << carries) < ranks) {
      ++carries;
    }
    return 52 - fraction - carries;
  }

  /// Adds one block in pairs of doubles, high + low. A lane of `lost` is not zero if its
  /// sum needs more bits, or if an input is infinite or a NaN.
  WEIR_INLINE static void double_sums(const std::byte* const* inputs, std::size_t ranks,
                                      std::size_t offset, V* high, V* low,
                                      M* lost) noexcept {
    for (std::size_t v = 0; v < vectors; ++v) {
      load(inputs[0] + offset + v * width * sizeof(S), high[v]);
      low[v] = V{};
      lost[v] = M{};
    }
    for (std::size_t r = 1; r < ranks; ++r) {
      for (std::size_t v = 0; v < vectors; ++v) {
        V x;
        load(inputs[r] + offset + v * width * sizeof(S), x);
        V rest;
        two_sum(high[v], x, rest);
        checked_sum(low[v], rest, lost[v]);
      }
    }
  }

  /// Rounds high + low to odd, so that rounding the result again is the same as rounding
  /// the sum once.
  WEIR_INLINE static void to_odd(V& high, const V& low) noexcept {
    V sum = high;
    V rest;
    two_sum(sum, low, rest);
    M bits;
    M rest_bits;
    __builtin_memcpy(&bits, &sum, sizeof bits);
    __builtin_memcpy(&rest_bits, &rest, sizeof rest_bits);
    const M adjust = M(rest != V{}) & M((bits & 1) == 0);
    // Moves one step away from zero, or towards it if the rest has the other sign.
    bits += adjust & (((bits ^ rest_bits) >> 63) | 1);
    V odd;
    __builtin_memcpy(&odd, &bits, sizeof odd);
    high = low == V{} ? high : odd;  // an exact sum keeps its bits, and a zero its sign
  }

  /// Converts one vector of sums to elements, after a division if there is a divisor.
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

  /// Adds the inputs of one element in the long accumulator.
  WEIR_INLINE static S slow_element(const std::byte* const* inputs, std::size_t ranks,
                                    std::size_t offset, std::uint32_t divisor) noexcept {
    exact_number sum;
    for (std::size_t r = 0; r < ranks; ++r) {
      S x;
      __builtin_memcpy(&x, inputs[r] + offset, sizeof x);
      sum.add(widened<double>(x));
    }
    const double value =
        divisor > 1 ? sum.rounded(53, -1074) / static_cast<double>(divisor)
                    : sum.rounded(exact_target<S>::precision, exact_target<S>::least);
    return finished<S>(value, 0);
  }

  /// Adds one block in pairs of doubles, and single elements in the long accumulator.
  WEIR_INLINE static void slow_block(const std::byte* const* inputs, std::size_t ranks,
                                     std::size_t offset, std::uint32_t divisor,
                                     S* to) noexcept {
    V high[vectors];
    V low[vectors];
    M lost[vectors];
    double_sums(inputs, ranks, offset, high, low, lost);
    for (std::size_t v = 0; v < vectors; ++v) {
      // With a divisor the sum is rounded to fp64 first, as the division needs. Otherwise
      // it is rounded once, to the type of the elements.
      if (divisor > 1 || std::is_same_v<S, double>) {
        high[v] = low[v] == V{} ? high[v] : high[v] + low[v];
      } else {
        to_odd(high[v], low[v]);
      }
      finish(high[v], divisor, to + v * width);
      if (!any(lost[v])) {
        continue;
      }
      for (std::size_t i = 0; i < width; ++i) {
        if (lost[v][i] << 1 != 0) {
          const std::size_t element = v * width + i;
          to[element] =
              slow_element(inputs, ranks, offset + element * sizeof(S), divisor);
        }
      }
    }
  }

  /// Adds one block by the cheapest method that is exact.
  WEIR_INLINE static void block(const std::byte* const* inputs, std::size_t ranks,
                                std::size_t offset, std::uint32_t divisor,
                                std::int32_t spread, S* to) noexcept {
    V sums[vectors];
    bool exact = false;
    // sums of doubles are hardly ever exact in fp64
    if constexpr (!std::is_same_v<S, double>) {
      exact = quick_sums(inputs, ranks, offset, spread, sums);
    }
    if (!exact) {
      slow_block(inputs, ranks, offset, divisor, to);
      return;
    }
    for (std::size_t v = 0; v < vectors; ++v) {
      finish(sums[v], divisor, to + v * width);
    }
  }

  /// Adds all elements: whole blocks, then the rest one by one. Results are stored in a
  /// buffer first, because an output may be one of the inputs.
  WEIR_INLINE static void run(const std::byte* const* inputs, std::size_t ranks,
                              std::byte* const* outputs, std::size_t output_count,
                              std::size_t count, std::uint32_t divisor) noexcept {
    S result[block_elements];
    const std::int32_t spread = exact_spread(ranks);
    std::size_t i = 0;
    for (; i + block_elements <= count; i += block_elements) {
      block(inputs, ranks, i * sizeof(S), divisor, spread, result);
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

}  // namespace weir::collective
