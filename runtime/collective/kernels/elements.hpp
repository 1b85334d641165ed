// SPDX-License-Identifier: Apache-2.0
/// @file
/// Elements as they are stored, the nodes that they are added in, and the operations.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "collective/kernels/narrow_floats.hpp"

namespace weir::collective {

struct bool_byte {
  std::uint8_t bits;
};
template <class T>
struct complex_pair {
  T re;
  T im;
};

inline constexpr std::uint64_t double_quiet_nan = 0x7FF8000000000000;

WEIR_INLINE float canonical(float x) noexcept {
  return x == x ? x : float_of(float_quiet_nan);
}
WEIR_INLINE double canonical(double x) noexcept {
  return x == x ? x : __builtin_bit_cast(double, double_quiet_nan);
}

/// An element as a node.
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

/// A node, divided if there is a divisor, as an element: rounded once.
template <class S, class N>
WEIR_INLINE S finished(N x, std::uint32_t divisor) noexcept {
  if constexpr (std::is_same_v<S, bool_byte>) {
    return {x};
  } else if constexpr (std::is_same_v<S, complex_pair<float>> ||
                       std::is_same_v<S, complex_pair<double>>) {
    return {canonical(x.re), canonical(x.im)};
  } else if constexpr (std::is_integral_v<S>) {
    // Divided as a signed number of 64 bits, whatever the type of the node.
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

/// Floats in their order, -0 below +0, as integers in theirs.
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
