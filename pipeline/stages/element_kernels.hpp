// SPDX-License-Identifier: Apache-2.0
/// @file
/// Kernels of the stage `elementwise`. Every result is exact: it is the correctly rounded
/// result of one operation, so it has the same bits on every machine.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "weir/weir.hpp"

namespace weir::flow {

/// Operations of the stage `elementwise`. Their operands are `a` and `b` of
/// `element_kernel`: `clamp` has both; `negate`, `absolute`, `relu` and `convert` have
/// none; all others have `a`.
enum class element_operation : std::uint8_t {
  add,
  subtract,
  multiply,
  divide,
  negate,
  absolute,
  minimum,
  maximum,
  relu,
  clamp,
  convert
};

/// Applies an operation with a function of unsigned numbers, modulo the range of T.
/// Overflow of signed numbers is undefined in C++, and that of unsigned ones is not.
template <std::integral T, class Function>
T wrapped(T x, T y, Function function) {
  using wide = std::common_type_t<std::make_unsigned_t<T>, unsigned>;
  return static_cast<T>(function(static_cast<wide>(x), static_cast<wide>(y)));
}

/// Arithmetic of integers modulo their range, and of floating-point numbers as in IEEE
/// 754. Comparisons with NaN are false, so that NaN passes through all selections.
template <class T>
struct arithmetic {
  static T add(T x, T y) {
    if constexpr (std::is_integral_v<T>) {
      return wrapped(x, y, [](auto a, auto b) { return a + b; });
    } else {
      return x + y;
    }
  }
  static T subtract(T x, T y) {
    if constexpr (std::is_integral_v<T>) {
      return wrapped(x, y, [](auto a, auto b) { return a - b; });
    } else {
      return x - y;
    }
  }
  static T multiply(T x, T y) {
    if constexpr (std::is_integral_v<T>) {
      return wrapped(x, y, [](auto a, auto b) { return a * b; });
    } else {
      return x * y;
    }
  }
  /// Integers are rounded towards zero. @pre An integer `y` is not 0.
  /// The smallest number divided by -1 overflows, so it is negated instead.
  static T divide(T x, T y) {
    if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) {
      return y == T{-1} ? negate(x) : static_cast<T>(x / y);
    } else {
      return static_cast<T>(x / y);
    }
  }
  static T negate(T x) {
    if constexpr (std::is_integral_v<T>) {
      return subtract(T{0}, x);
    } else {
      return -x;
    }
  }
  static T absolute(T x) {
    if constexpr (std::is_unsigned_v<T>) {
      return x;
    } else if constexpr (std::is_integral_v<T>) {
      return x < T{0} ? negate(x) : x;
    } else {
      return std::abs(x);
    }
  }
  static T minimum(T x, T y) { return y < x ? y : x; }
  static T maximum(T x, T y) { return x < y ? y : x; }
  static T relu(T x) { return x <= T{0} ? T{0} : x; }
  static T clamp(T x, T low, T high) { return minimum(maximum(x, low), high); }
};

/// Converts a number: integers modulo the range of the result, floating-point numbers to
/// integers towards zero and to the nearest end of the range, NaN to 0.
/// A comparison with the ends in the type of the number keeps the cast defined.
template <class To, class From>
To converted(From x) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    constexpr To low = std::numeric_limits<To>::min();
    constexpr To high = std::numeric_limits<To>::max();
    if (x != x) {
      return To{0};
    }
    if (x <= static_cast<From>(low)) {
      return low;
    }
    return x >= static_cast<From>(high) ? high : static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

/// Computes elements of one type. The numbers `a` and `b` are the operands.
template <class T>
struct element_kernel {
  /// Elements of the input.
  const std::byte* from;
  /// Elements of the result; may not overlap the input.
  std::byte* to;
  /// Number of elements.
  std::int64_t count;
  element_operation operation;
  T a;
  T b;

  /// Applies a function to all elements. The loop is simple, so that compilers vectorise
  /// it.
  template <class Function>
  void each(Function function) const {
    const T* x = reinterpret_cast<const T*>(from);  // NOLINT: slots are aligned to 64
    T* y = reinterpret_cast<T*>(to);                // NOLINT
    for (std::int64_t i = 0; i < count; ++i) {
      y[i] = function(x[i]);
    }
  }
  void operator()() const {
    using with = arithmetic<T>;
    const T p = a;
    const T q = b;
    // The switch stands outside of the loop.
    switch (operation) {
      case element_operation::add: return each([=](T x) { return with::add(x, p); });
      case element_operation::subtract:
        return each([=](T x) { return with::subtract(x, p); });
      case element_operation::multiply:
        return each([=](T x) { return with::multiply(x, p); });
      case element_operation::divide:
        return each([=](T x) { return with::divide(x, p); });
      case element_operation::negate: return each([](T x) { return with::negate(x); });
      case element_operation::absolute:
        return each([](T x) { return with::absolute(x); });
      case element_operation::minimum:
        return each([=](T x) { return with::minimum(x, p); });
      case element_operation::maximum:
        return each([=](T x) { return with::maximum(x, p); });
      case element_operation::relu: return each([](T x) { return with::relu(x); });
      case element_operation::clamp:
        return each([=](T x) { return with::clamp(x, p, q); });
      case element_operation::convert: return;  // has a kernel of its own
    }
  }
};

/// Converts elements to another type.
template <class From, class To>
struct convert_kernel {
  const std::byte* from;
  std::byte* to;
  std::int64_t count;

  void operator()() const {
    const From* x = reinterpret_cast<const From*>(from);  // NOLINT: aligned to 64
    To* y = reinterpret_cast<To*>(to);                    // NOLINT
    for (std::int64_t i = 0; i < count; ++i) {
      y[i] = converted<To>(x[i]);
    }
  }
};

}  // namespace weir::flow
