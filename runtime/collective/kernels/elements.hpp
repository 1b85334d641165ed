// SPDX-License-Identifier: Apache-2.0
/// @file
/// Elements as they are stored, the nodes in which they are added, and the operations. A
/// node is the type of a partial result; it may be wider than the element.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "collective/kernels/narrow_floats.hpp"

namespace weir::collective {

/// A boolean in one byte; every value but 0 is true.
struct bool_byte {
  std::uint8_t bits;
};
/// A complex number.
template <class T>
struct complex_pair {
  T re;
  T im;
};

/// The bits that every NaN of a result has.
inline constexpr std::uint64_t double_quiet_nan = 0x7FF8000000000000;

/// Return x, or the canonical NaN if it is one: the bits of a NaN depend on the
/// processor.
WEIR_INLINE float canonical(float x) noexcept {
  return x == x ? x : float_of(float_quiet_nan);
}
WEIR_INLINE double canonical(double x) noexcept {
  return x == x ? x : __builtin_bit_cast(double, double_quiet_nan);
}

/// Converts an element to a node.
template <class N, class S>
WEIR_INLINE N widened(S x) noexcept {
  if constexpr (std::is_same_v<S, bool_byte>) {
    return static_cast<N>(x.bits != 0 ? 1 : 0);
  } else if constexpr (std::is_class_v<S> && !std::is_same_v<S, N>) {
    return static_cast<N>(to_float(x));
  } else {
    return static_cast<N>(x);
  }
}

/// Converts a node to an element, after a division if there is a divisor. Apart from the
/// division, each path rounds once: where a double needs two steps to a narrow type, the
/// first step is to odd or keeps a sticky bit, so that the second gives the same result
/// as a single rounding.
template <class S, class N>
WEIR_INLINE S finished(N x, std::uint32_t divisor) noexcept {
  if constexpr (std::is_same_v<S, bool_byte>) {
    return {x};
  } else if constexpr (std::is_same_v<S, complex_pair<float>> ||
                       std::is_same_v<S, complex_pair<double>>) {
    return {canonical(x.re), canonical(x.im)};
  } else if constexpr (std::is_integral_v<S>) {
    // The division is one of signed numbers of 64 bits for all types of nodes.
    const auto value = static_cast<std::int64_t>(static_cast<std::make_signed_t<S>>(x));
    return static_cast<S>(divisor > 1 ? value / static_cast<std::int64_t>(divisor)
                                      : value);
  } else {
    const N value = divisor > 1 ? x / static_cast<N>(divisor) : x;
    if constexpr (std::is_class_v<S>) {
      S out;
      if constexpr (std::is_same_v<S, bfloat_bits> && std::is_same_v<N, double>) {
        from_float(to_odd_float(value), out);
      } else if constexpr (std::is_same_v<N, double>) {
        from_float(to_cut_float(value), out);
      } else {
        from_float(value, out);
      }
      return out;
    } else {
      return canonical(static_cast<S>(value));
    }
  }
}

/// Adds. Integers are added as unsigned numbers, which wrap around without undefined
/// behaviour.
struct add_op {
  template <class N>
  WEIR_INLINE static N apply(N a, N b) noexcept {
    if constexpr (std::is_integral_v<N>) {
      using U = std::conditional_t<sizeof(N) < 4, std::uint32_t, std::make_unsigned_t<N>>;
      return static_cast<N>(static_cast<U>(a) + static_cast<U>(b));
    } else {
      return a + b;
    }
  }
};

/// Multiplies. Integers wrap around.
struct multiply_op {
  template <class N>
  WEIR_INLINE static N apply(N a, N b) noexcept {
    if constexpr (std::is_integral_v<N>) {
      using U = std::conditional_t<sizeof(N) < 4, std::uint32_t, std::make_unsigned_t<N>>;
      return static_cast<N>(static_cast<U>(a) * static_cast<U>(b));
    } else if constexpr (std::is_class_v<N>) {
      return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
    } else {
      return a * b;
    }
  }
};

/// Returns an integer that compares as the number does, with -0 below +0.
template <class N>
WEIR_INLINE auto order_key(N x) noexcept {
  if constexpr (std::is_same_v<N, float>) {
    const auto bits = __builtin_bit_cast(std::int32_t, x);
    return bits ^ ((bits >> 31) & 0x7FFFFFFF);
  } else if constexpr (std::is_same_v<N, double>) {
    const auto bits = __builtin_bit_cast(std::int64_t, x);
    return bits ^ ((bits >> 63) & 0x7FFFFFFFFFFFFFFF);
  } else {
    return x;
  }
}

/// Returns the larger or smaller number. If one is a NaN, the result is the canonical
/// NaN.
template <bool Largest>
struct extreme_op {
  template <class N>
  WEIR_INLINE static N apply(N a, N b) noexcept {
    const bool left = Largest ? order_key(a) > order_key(b) : order_key(a) < order_key(b);
    const N chosen = left ? a : b;
    if constexpr (std::is_floating_point_v<N>) {
      const bool numbers = (a == a) & (b == b);
      return numbers ? chosen : canonical(std::numeric_limits<N>::quiet_NaN());
    } else {
      return chosen;
    }
  }
};
using max_op = extreme_op<true>;
using min_op = extreme_op<false>;

/// Bitwise operations, for booleans.
struct or_op {
  template <class N>
  WEIR_INLINE static N apply(N a, N b) noexcept {
    return static_cast<N>(a | b);
  }
};
struct and_op {
  template <class N>
  WEIR_INLINE static N apply(N a, N b) noexcept {
    return static_cast<N>(a & b);
  }
};

}  // namespace weir::collective
