// SPDX-License-Identifier: Apache-2.0
/// @file
/// Vectors of a floating point type, and elementary functions on them that give the same
/// bits on every processor. Included once per instruction set, inside the namespace
/// `WEIR_KERNEL_SPACE`.
///
/// There are two kinds of vectors. A `vec` has eight lanes on every instruction set; sums
/// over lanes use it, so that their order is fixed. A `wide` has as many lanes as a
/// register holds; it is for work in which lanes never meet, where the number of lanes
/// cannot change the bits.
///
/// The exponential and the logarithm are not those of `weir/base/math/elementary.hpp` but
/// functions with fused multiply-additions, because the states and checkpoints of earlier
/// versions of the byte model depend on their bits.
///
/// Code in this namespace must not call inline functions of other headers. The linker
/// keeps one copy of such a function for the whole program, and could keep one that was
/// compiled for an instruction set that the processor does not have.
#pragma once

#include <cstddef>
#include <cstdint>
#if defined(__AVX__) || defined(__FMA__)
#include <immintrin.h>
#endif

#define WEIR_INLINE inline __attribute__((always_inline))

namespace weir::models::WEIR_KERNEL_SPACE {

/// Vectors of the compiler, which work on every processor.
template <class R>
struct lanes_of;
template <>
struct lanes_of<float> {
  typedef float type __attribute__((vector_size(32)));
  typedef std::int32_t bits __attribute__((vector_size(32)));
};
template <>
struct lanes_of<double> {
  typedef double type __attribute__((vector_size(64)));
  typedef std::int64_t bits __attribute__((vector_size(64)));
};
/// Eight elements; the usual operators work element by element.
template <class R>
using vec = typename lanes_of<R>::type;
/// Masks and exponents.
template <class R>
using vec_bits = typename lanes_of<R>::bits;

/// The number is the same for both types.
inline constexpr int lanes = 8;

/// The vector that fills the widest register.
///
/// Without a wider one it is the `vec`.
template <class R>
struct wide_of : lanes_of<R> {};
#if defined(__AVX512F__)
template <>
struct wide_of<float> {
  typedef float type __attribute__((vector_size(64)));
};
#endif
template <class R>
using wide = typename wide_of<R>::type;
/// A power of two, up to 16.
template <class R>
inline constexpr int wide_lanes = static_cast<int>(sizeof(wide<R>) / sizeof(R));

/// Rows of triangular matrices are processed in blocks of this many elements on every
/// instruction set. They are zero from the diagonal to the end of its block.
inline constexpr int row_block = 16;
/// Calls f(i) for the first element of each register in the blocks that hold the elements
/// [0, count).
template <class R, class F>
WEIR_INLINE void in_blocks(int count, F f) {
  for (int first = 0; first < count; first += row_block) {
    for (int i = first; i < first + row_block; i += wide_lanes<R>) {
      f(i);
    }
  }
}

/// Addresses need not be aligned.
template <class R>
WEIR_INLINE vec<R> load(const R* from) {
  vec<R> v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
template <class R>
WEIR_INLINE wide<R> load_wide(const R* from) {
  wide<R> v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
/// The type of the elements cannot be found from the vector alone.
template <class R, class V>
WEIR_INLINE void store(R* to, V v) {
  static_assert(sizeof(V) == sizeof(vec<R>) || sizeof(V) == sizeof(wide<R>));
  __builtin_memcpy(to, &v, sizeof v);
}
/// All lanes get the same value.
template <class R>
WEIR_INLINE vec<R> all(R x) {
  return vec<R>{x, x, x, x, x, x, x, x};
}
template <class R>
WEIR_INLINE wide<R> all_wide(R x) {
  return x - wide<R>{};  // spreads the scalar; subtracting 0 changes no bit
}

/// Returns a * b + c, rounded once. The compiler is not allowed to fuse operations by
/// itself, so every fused operation is written as one; where the processor has no such
/// instruction, the library computes the same bits.
///
/// This matters because bits must be equal on every processor.
WEIR_INLINE vec<float> fma(vec<float> a, vec<float> b, vec<float> c) {
#if defined(__FMA__)
  return reinterpret_cast<vec<float>>(_mm256_fmadd_ps(reinterpret_cast<__m256>(a),
                                                      reinterpret_cast<__m256>(b),
                                                      reinterpret_cast<__m256>(c)));
#else
  for (int i = 0; i < lanes; ++i) {
    c[i] = __builtin_fmaf(a[i], b[i], c[i]);
  }
  return c;
#endif
}
WEIR_INLINE vec<double> fma(vec<double> a, vec<double> b, vec<double> c) {
  for (int i = 0; i < lanes; ++i) {
    c[i] = __builtin_fma(a[i], b[i], c[i]);
  }
  return c;
}

/// The square root is rounded correctly by all of them.
WEIR_INLINE vec<float> root(vec<float> a) {
#if defined(__AVX__)
  return reinterpret_cast<vec<float>>(_mm256_sqrt_ps(reinterpret_cast<__m256>(a)));
#else
  for (int i = 0; i < lanes; ++i) {
    a[i] = __builtin_sqrtf(a[i]);
  }
  return a;
#endif
}
WEIR_INLINE vec<double> root(vec<double> a) {
  for (int i = 0; i < lanes; ++i) {
    a[i] = __builtin_sqrt(a[i]);
  }
  return a;
}
#if defined(__AVX512F__)
WEIR_INLINE wide<float> fma(wide<float> a, wide<float> b, wide<float> c) {
  return reinterpret_cast<wide<float>>(_mm512_fmadd_ps(reinterpret_cast<__m512>(a),
                                                       reinterpret_cast<__m512>(b),
                                                       reinterpret_cast<__m512>(c)));
}
WEIR_INLINE wide<float> root(wide<float> a) {
  return reinterpret_cast<wide<float>>(
      _mm512_maskz_sqrt_ps(0xffff, reinterpret_cast<__m512>(a)));
}
#endif
WEIR_INLINE float root(float a) {
  return __builtin_sqrtf(a);
}
WEIR_INLINE double root(double a) {
  return __builtin_sqrt(a);
}

/// Element by element; with NaN the second operand is taken.
template <class V>
WEIR_INLINE V larger(V a, V b) {
  return a > b ? a : b;
}
template <class V>
WEIR_INLINE V smaller(V a, V b) {
  return a < b ? a : b;
}

/// Returns the sum of the lanes, in a fixed order.
template <class R>
WEIR_INLINE R sum(vec<R> v) {
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}
/// Comparisons do not depend on their order.
template <class R>
WEIR_INLINE R largest(vec<R> v) {
  R m = v[0];
  for (int i = 1; i < lanes; ++i) {
    m = v[i] > m ? v[i] : m;
  }
  return m;
}

/// Returns e^x with an error of at most 2 units in the last place. Arguments are limited
/// to [-87.3, 88], so that the result is a normal number.
///
/// x is split into n log(2) + r with an integer n; log(2) has two parts, so that the
/// subtraction loses no bits. A polynomial gives e^r, and n is added to the exponent.
WEIR_INLINE vec<float> exponential(vec<float> x) {
  x = larger(smaller(x, all(88.0F)), all(-87.3F));
  const vec<float> magic =
      all(12582912.0F);  // 1.5 * 2^23: adding it rounds to an integer
  // The nearest integer.
  const vec<float> n = fma(x, all(1.44269504F), magic) - magic;
  // The first part is exact, as it has few bits.
  vec<float> r = fma(n, all(-0.693359375F), x);
  r = fma(n, all(2.12194440e-4F), r);
  vec<float> p = all(1.9875691500e-4F);
  p = fma(p, r, all(1.3981999507e-3F));
  p = fma(p, r, all(8.3334519073e-3F));
  p = fma(p, r, all(4.1665795894e-2F));
  p = fma(p, r, all(1.6666665459e-1F));
  p = fma(p, r, all(5.0000001201e-1F));
  // The constant and the linear term are added last.
  p = fma(p, r * r, r) + all(1.0F);
  // The exponent is added as an integer.
  const vec_bits<float> exponent = __builtin_convertvector(n, vec_bits<float>) << 23;
  return reinterpret_cast<vec<float>>(reinterpret_cast<vec_bits<float>>(p) + exponent);
}
/// Calls the C library, which is good enough for checks in double precision.
WEIR_INLINE vec<double> exponential(vec<double> x) {
  for (int i = 0; i < lanes; ++i) {
    x[i] = __builtin_exp(x[i]);
  }
  return x;
}

/// Returns the natural logarithm of a positive normal number. x is split into 2^e m with
/// m in [sqrt(1/2), sqrt(2)), and log(m) = 2 atanh((m - 1) / (m + 1)) is a short series.
WEIR_INLINE float logarithm(float x) {
  std::int32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  // The exponent of the power of two below x / sqrt(1/2).
  const std::int32_t e = ((bits - 0x3f3504f3) >> 23);
  bits -= e << 23;
  float m;
  __builtin_memcpy(&m, &bits, sizeof m);
  // The series has odd powers only.
  const float s = (m - 1.0F) / (m + 1.0F);
  const float z = s * s;
  float p = 0.2222222222F;
  p = __builtin_fmaf(p, z, 0.2857142857F);
  p = __builtin_fmaf(p, z, 0.4F);
  p = __builtin_fmaf(p, z, 0.6666666667F);
  p = __builtin_fmaf(p, z, 2.0F);
  // The logarithm of the power is added last.
  return __builtin_fmaf(static_cast<float>(e), 0.69314718056F, p * s);
}
WEIR_INLINE double logarithm(double x) {
  return __builtin_log(x);
}

/// Saturates without a special case, since the exponential is limited.
template <class R>
WEIR_INLINE vec<R> sigmoid(vec<R> x) {
  return all(R(1)) / (all(R(1)) + exponential(-x));
}

}  // namespace weir::models::WEIR_KERNEL_SPACE
