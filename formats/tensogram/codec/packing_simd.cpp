// SPDX-License-Identifier: Apache-2.0
/// @file
/// Inner loops of packing with AVX2, chosen at run time. They do the operations of the
/// scalar loops in the same order, four values at a time, so results are equal bit for
/// bit.
///
/// The scalar loops in packing.cpp define the results and handle what is left: the last
/// elements, widths that are no whole bytes, and scales that are not finite. Loads and
/// stores touch more bytes than those of four elements, so the loops end 12 to 16
/// elements before the end.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "tensogram/codec/packing.hpp"
#include "tensogram/codec/parallel.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weir::formats {

namespace {

/// Returns the first zero of `values` if `found` is zero, and else `found`. Zeros of both
/// signs compare equal, and the SIMD lanes do not keep the order of the elements.
double first_of_equals(bytes_view values, double found) noexcept {
  for (std::size_t i = 0; found == 0 && i + 8 <= values.size(); i += 8) {
    double value;
    std::memcpy(&value, values.data() + i, 8);
    if (value == 0) {
      return value;
    }
  }
  return found;
}

/// Extends a span by a value.
void widen(value_span& span, double value) noexcept {
  span.lowest = value < span.lowest ? value : span.lowest;
  span.highest = value > span.highest ? value : span.highest;
  span.finite = span.finite && std::isfinite(value);
}

#if defined(__x86_64__)

/// Returns the byte shuffle that moves the low `bytes` bytes of the two 64-bit integers
/// in each half of a register to the front of the half, in big-endian order.
__attribute__((target("avx2"))) __m256i packed_order(unsigned bytes) noexcept {
  alignas(32) std::array<char, 32> order{};
  // A 256-bit byte shuffle moves bytes within each half of 128 bits only.
  for (std::size_t half = 0; half < 2; ++half) {
    for (std::size_t k = 0; k < 16; ++k) {
      const std::size_t lane = k / bytes;
      order[16 * half + k] = lane < 2
                                 ? static_cast<char>(8 * lane + bytes - 1 - k % bytes)
                                 : static_cast<char>(-128);
    }
  }
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(order.data()));
}

/// Quantises four values as quantise() in packing.cpp does, and returns the integers in
/// the low bits of four 64-bit lanes. Limiting comes before rounding, which gives the
/// same result and turns NaN into 0: MAXPD returns its second operand if one is NaN.
__attribute__((target("avx2"))) inline __m256i quantise4(const std::byte* from,
                                                         __m256d reference, __m256d scale,
                                                         __m256d largest) noexcept {
  const __m256d v = _mm256_loadu_pd(reinterpret_cast<const double*>(from));
  __m256d x = _mm256_mul_pd(_mm256_sub_pd(v, reference), scale);
  x = _mm256_min_pd(_mm256_max_pd(x, _mm256_setzero_pd()), largest);
  // The values are positive, so rounding to zero and adding 1 for a rest of at least 0.5
  // rounds halves up.
  const __m256d whole = _mm256_round_pd(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
  const __m256d up =
      _mm256_cmp_pd(_mm256_sub_pd(x, whole), _mm256_set1_pd(0.5), _CMP_GE_OQ);
  const __m256d rounded = _mm256_add_pd(whole, _mm256_and_pd(up, _mm256_set1_pd(1)));
  // Adding 2^52 leaves an integer below 2^32 in the low bits of the double.
  return _mm256_castpd_si256(_mm256_add_pd(rounded, _mm256_set1_pd(0x1p52)));
}

/// Packs as many elements as possible and returns their number.
template <unsigned Bytes>
__attribute__((target("avx2"))) std::size_t pack_avx2(const std::byte* values,
                                                      std::size_t count, double reference,
                                                      double scale,
                                                      std::byte* to) noexcept {
  const __m256i order = packed_order(Bytes);
  const __m256d r = _mm256_set1_pd(reference);
  const __m256d s = _mm256_set1_pd(scale);
  const __m256d top = _mm256_set1_pd(static_cast<double>((1ull << (8 * Bytes)) - 1));
  std::size_t i = 0;
  // Each store writes eight bytes, some of which belong to later elements. With at least
  // 12 elements behind the current four, they are within the output.
  for (; i + 16 <= count; i += 4) {
    const __m256i q = quantise4(values + 8 * i, r, s, top);
    const __m256i packed = _mm256_shuffle_epi8(q, order);
    std::byte* out = to + i * Bytes;
    // Two integers of a half lie in its first 2 * Bytes bytes.
    const long long low = _mm256_extract_epi64(packed, 0);
    const long long high = _mm256_extract_epi64(packed, 2);
    std::memcpy(out, &low, 8);
    std::memcpy(out + 2 * Bytes, &high, 8);
  }
  return i;
}

/// Returns the byte shuffle that spreads four big-endian integers of `bytes` bytes to
/// four 64-bit lanes. Each half of the register holds a copy of all of them.
__attribute__((target("avx2"))) __m256i spread_order(unsigned bytes) noexcept {
  alignas(32) std::array<char, 32> order{};
  for (std::size_t lane = 0; lane < 4; ++lane) {
    for (std::size_t k = 0; k < 8; ++k) {
      order[8 * lane + k] = k < bytes ? static_cast<char>(bytes * lane + bytes - 1 - k)
                                      : static_cast<char>(-128);
    }
  }
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(order.data()));
}

/// Unpacks as many elements as possible and returns their number. An integer below 2^32
/// becomes a double by putting it into the low bits of 2^52 and subtracting 2^52.
template <unsigned Bytes>
__attribute__((target("avx2"))) std::size_t unpack_avx2(const std::byte* from,
                                                        std::size_t count,
                                                        double reference, double factor,
                                                        std::byte* to) noexcept {
  const __m256i order = spread_order(Bytes);
  const __m256d r = _mm256_set1_pd(reference);
  const __m256d f = _mm256_set1_pd(factor);
  const __m256d magic = _mm256_set1_pd(0x1p52);
  std::size_t i = 0;
  for (; i + 16 <= count;
       i += 4) {  // a load takes 16 bytes, some of which belong to later elements
    const __m128i raw =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i * Bytes));
    // All four integers are in the first 16 bytes that were loaded, and both halves get
    // them.
    const __m256i q = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(raw), order);
    const __m256d whole = _mm256_sub_pd(
        _mm256_castsi256_pd(_mm256_or_si256(q, _mm256_castpd_si256(magic))), magic);
    _mm256_storeu_pd(reinterpret_cast<double*>(to + 8 * i),
                     _mm256_add_pd(r, _mm256_mul_pd(f, whole)));
  }
  return i;
}

/// Computes the span of the first elements with two independent pairs of accumulators,
/// which hide the latency of the minimum and maximum. Returns how many elements it
/// covered.
__attribute__((target("avx2"))) std::size_t span_avx2(bytes_view values,
                                                      value_span& span) noexcept {
  const std::size_t count = values.size() / 8;
  if (count < 8) {
    return 0;
  }
  const auto* data = reinterpret_cast<const double*>(values.data());
  __m256d low = _mm256_loadu_pd(data);
  __m256d high = low;
  __m256d odd = _mm256_setzero_pd();
  __m256d low2 = low;
  __m256d high2 = low;
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    // v and w are independent, so their minima can be computed at the same time.
    const __m256d v = _mm256_loadu_pd(data + i);
    const __m256d w = _mm256_loadu_pd(data + i + 4);
    low = _mm256_min_pd(v, low);
    high = _mm256_max_pd(v, high);
    low2 = _mm256_min_pd(w, low2);
    high2 = _mm256_max_pd(w, high2);
    // The difference of a value to itself is 0 if the value is finite, and NaN otherwise.
    odd = _mm256_add_pd(odd, _mm256_add_pd(_mm256_sub_pd(v, v), _mm256_sub_pd(w, w)));
  }
  alignas(32) std::array<double, 12> lanes{};
  _mm256_store_pd(lanes.data(), _mm256_min_pd(low, low2));
  _mm256_store_pd(lanes.data() + 4, _mm256_max_pd(high, high2));
  _mm256_store_pd(lanes.data() + 8, odd);
  for (std::size_t k = 0; k < 4; ++k) {
    // A comparison with NaN is false, so NaN does not replace a bound.
    span.lowest = lanes[k] < span.lowest ? lanes[k] : span.lowest;
    span.highest = lanes[4 + k] > span.highest ? lanes[4 + k] : span.highest;
    span.finite = span.finite && lanes[8 + k] == 0;
  }
  return i;
}

#endif

}  // namespace

#if defined(__x86_64__)

bool simd_at_hand() noexcept {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}

simd_done pack_simd(const std::byte* values, std::size_t count, double reference,
                    double scale, unsigned bits, std::byte* to) noexcept {
  switch (bits) {
    case 8: return {pack_avx2<1>(values, count, reference, scale, to)};
    case 16: return {pack_avx2<2>(values, count, reference, scale, to)};
    case 24: return {pack_avx2<3>(values, count, reference, scale, to)};
    case 32: return {pack_avx2<4>(values, count, reference, scale, to)};
    default: return {};
  }
}

simd_done unpack_simd(const std::byte* from, std::size_t count, double reference,
                      double factor, unsigned bits, std::byte* to) noexcept {
  switch (bits) {
    case 8: return {unpack_avx2<1>(from, count, reference, factor, to)};
    case 16: return {unpack_avx2<2>(from, count, reference, factor, to)};
    case 24: return {unpack_avx2<3>(from, count, reference, factor, to)};
    case 32: return {unpack_avx2<4>(from, count, reference, factor, to)};
    default: return {};
  }
}

#else

bool simd_at_hand() noexcept {
  return false;
}
simd_done pack_simd(const std::byte*, std::size_t, double, double, unsigned,
                    std::byte*) noexcept {
  return {};
}
simd_done unpack_simd(const std::byte*, std::size_t, double, double, unsigned,
                      std::byte*) noexcept {
  return {};
}

#endif

namespace {

/// Computes the span of one piece.
/// A piece with less than one value has the span 0 to 0.
value_span span_of_piece(bytes_view values) noexcept {
  value_span out;
  if (values.size() < 8) {
    return out;
  }
  std::memcpy(&out.lowest, values.data(), 8);
  out.highest = out.lowest;
  std::size_t i = 0;
#if defined(__x86_64__)
  if (simd_at_hand()) {
    i = span_avx2(values, out);
  }
#endif
  for (; 8 * (i + 1) <= values.size(); ++i) {
    double value;
    std::memcpy(&value, values.data() + 8 * i, 8);
    widen(out, value);
  }
  return out;
}

}  // namespace

/// With several threads, the spans of pieces are combined in order, so the result does
/// not depend on the number of threads.
value_span span_of_values(bytes_view values, unsigned threads) {
  // Pieces of half a mebibyte keep the threads busy without much overhead.
  constexpr std::size_t at_once = 512 * 1024;
  threads = worth_threads(threads, values.size());
  const std::size_t step =
      threads == 1 ? std::max<std::size_t>(values.size(), 8) : at_once;
  std::vector<value_span> parts((values.size() + step - 1) / step);
  for_each_piece(threads, parts.size(), [&](std::size_t k) {
    parts[k] =
        span_of_piece(values.subspan(k * step, std::min(step, values.size() - k * step)));
  });
  // The first part stands in for the start value.
  value_span out = parts.empty() ? value_span() : parts.front();
  for (const value_span& part : parts) {
    out.lowest = std::min(out.lowest, part.lowest);
    out.highest = std::max(out.highest, part.highest);
    out.finite = out.finite && part.finite;
  }
  // The reference value is the first of several equal minima; see first_of_equals().
  out.lowest = first_of_equals(values, out.lowest);
  return out;
}

}  // namespace weir::formats
