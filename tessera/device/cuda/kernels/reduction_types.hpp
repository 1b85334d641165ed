// SPDX-License-Identifier: Apache-2.0
/// @file
/// Types of elements of the reductions over ranks: how an element becomes a node of the
/// canonical tree, how nodes are joined, and how a node becomes an element.
#pragma once

#include "kernels/device.hpp"
#include "weir/base/small_floats.hpp"

namespace weir::device_code {

constexpr std::int32_t op_sum = 0;
constexpr std::int32_t op_max = 1;
constexpr std::int32_t op_product = 3;
constexpr std::int32_t op_average = 4;

/// Returns an integer that compares as the number does, with -0 below +0.
WEIR_DEVICE std::int32_t order_key(float x) noexcept {
  const auto bits = static_cast<std::int32_t>(bits_of(x));
  return bits ^ ((bits >> 31) & 0x7FFFFFFF);
}
WEIR_DEVICE std::int64_t order_key(double x) noexcept {
  const auto bits = static_cast<std::int64_t>(bits_of(x));
  return bits ^ ((bits >> 63) & 0x7FFFFFFFFFFFFFFF);
}

/// Nodes that are floats: how two of them are joined, and how an average ends.
template <class N>
struct float_nodes {
  using node = N;
  /// Joins two nodes; the lower rank is on the left.
  WEIR_DEVICE static N join(N left, N right, std::int32_t operation) noexcept {
    if (operation == op_sum || operation == op_average) {
      return left + right;
    }
    if (operation == op_product) {
      return left * right;
    }
    const bool larger = order_key(left) > order_key(right);
    const N chosen = larger == (operation == op_max) ? left : right;
    // A NaN plus a number is a NaN.
    return left == left && right == right ? chosen : left + right;
  }
  WEIR_DEVICE static N divide(N sum, std::int32_t ranks) noexcept {
    return sum / static_cast<N>(ranks);
  }
};

/// An element as it is stored, and the node that it becomes.
struct as_fp32 : float_nodes<float> {
  using stored = float;
  WEIR_DEVICE static float widen(float x) noexcept { return x; }
  WEIR_DEVICE static float narrow(float x) noexcept { return canonical(x); }
};
struct as_fp32_wide : float_nodes<double> {
  using stored = float;
  WEIR_DEVICE static double widen(float x) noexcept { return x; }
  WEIR_DEVICE static float narrow(double x) noexcept {
    return canonical(static_cast<float>(x));
  }
};
struct as_fp64 : float_nodes<double> {
  using stored = double;
  WEIR_DEVICE static double widen(double x) noexcept { return x; }
  WEIR_DEVICE static double narrow(double x) noexcept { return canonical(x); }
};
struct as_fp16 : float_nodes<float> {
  using stored = std::uint16_t;
  WEIR_DEVICE static float widen(std::uint16_t x) noexcept { return fp16_to_float(x); }
  WEIR_DEVICE static std::uint16_t narrow(float x) noexcept {
    return float_to_fp16(canonical(x));
  }
};
struct as_bf16 : float_nodes<float> {
  using stored = std::uint16_t;
  WEIR_DEVICE static float widen(std::uint16_t x) noexcept { return bf16_to_float(x); }
  WEIR_DEVICE static std::uint16_t narrow(float x) noexcept {
    return float_to_bf16(canonical(x));
  }
};
/// Returns the number, or the limit of its sign if it is beyond the limits.
WEIR_DEVICE float limited(float x, float limit) noexcept {
  return x > limit ? limit : x < -limit ? -limit : x;
}
/// Encodes e4m3 and saturates.
WEIR_DEVICE std::uint8_t e4m3_from(float x) noexcept {
  return float_to_fp8_e4m3(limited(canonical(x), 448.0F));
}
/// Encodes e5m2 and saturates, but an infinity stays one.
WEIR_DEVICE std::uint8_t e5m2_from(float x) noexcept {
  const bool infinite = (bits_of(x) & 0x7FFFFFFFU) == 0x7F800000U;
  return float_to_fp8_e5m2(infinite ? x : limited(canonical(x), 57344.0F));
}
struct as_e4m3 : float_nodes<float> {
  using stored = std::uint8_t;
  WEIR_DEVICE static float widen(std::uint8_t x) noexcept { return fp8_e4m3_to_float(x); }
  WEIR_DEVICE static std::uint8_t narrow(float x) noexcept { return e4m3_from(x); }
};
struct as_e5m2 : float_nodes<float> {
  using stored = std::uint8_t;
  WEIR_DEVICE static float widen(std::uint8_t x) noexcept { return fp8_e5m2_to_float(x); }
  WEIR_DEVICE static std::uint8_t narrow(float x) noexcept { return e5m2_from(x); }
};

/// Integers, as nodes of 64 bits that wrap around.
template <class T>
struct as_integer {
  using stored = T;
  using node = std::int64_t;
  WEIR_DEVICE static node widen(T x) noexcept { return x; }
  WEIR_DEVICE static T narrow(node x) noexcept { return static_cast<T>(x); }
  WEIR_DEVICE static node join(node left, node right, std::int32_t operation) noexcept {
    const auto a = static_cast<std::uint64_t>(left);
    const auto b = static_cast<std::uint64_t>(right);
    if (operation == op_sum || operation == op_average) {
      return static_cast<node>(a + b);
    }
    if (operation == op_product) {
      return static_cast<node>(a * b);
    }
    return (left > right) == (operation == op_max) ? left : right;
  }
  WEIR_DEVICE static node divide(node sum, std::int32_t ranks) noexcept {
    return static_cast<node>(narrow(sum)) / ranks;
  }
};

/// Booleans: a sum is a maximum, and a product is a minimum.
struct as_boolean : as_integer<std::int8_t> {
  using stored = std::uint8_t;
  WEIR_DEVICE static node widen(std::uint8_t x) noexcept { return x != 0 ? 1 : 0; }
  WEIR_DEVICE static std::uint8_t narrow(node x) noexcept {
    return static_cast<std::uint8_t>(x);
  }
  WEIR_DEVICE static node join(node left, node right, std::int32_t operation) noexcept {
    return operation == op_sum || operation == op_max ? left | right : left & right;
  }
};

/// A complex number.
template <class T>
struct complex_number {
  T re;
  T im;
};
/// Products of complex numbers.
template <class T>
struct as_complex {
  using stored = complex_number<T>;
  using node = complex_number<T>;
  WEIR_DEVICE static node widen(node x) noexcept { return x; }
  WEIR_DEVICE static node narrow(node x) noexcept {
    return {canonical(x.re), canonical(x.im)};
  }
  WEIR_DEVICE static node join(node a, node b, std::int32_t /*operation*/) noexcept {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  WEIR_DEVICE static node divide(node x, std::int32_t /*ranks*/) noexcept { return x; }
};

}  // namespace weir::device_code
