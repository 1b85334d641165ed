// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reductions over ranks at level 1, along the canonical tree, and at level 2, rounded
/// once. They have the bits of `weir::collective::reducer`.
///
/// `inputs` holds one address for each of up to 1024 ranks, in the order of ranks. All
/// inputs of an element are read before it is written, so `out` may be one of them.
/// Types have the numbers of `weir::dtype`, and 0 stands for fp32 with nodes of fp64.
/// Sums and averages of complex numbers are those of twice as many real numbers.
/// Operations have the numbers of `weir::collective::reduction_op`: 0 sum, 1 maximum, 2
/// minimum, 3 product, 4 average.
#include "kernels/device.hpp"
#include "kernels/reduction_types.hpp"
#include "weir/base/small_floats.hpp"

namespace weir::device_code {

/// Height of the canonical tree over 1024 ranks, and one more for a single rank.
constexpr int tree_levels = 11;

/// Evaluates the tree over element `i` of all ranks. `waiting[l]` is the node over 2^l
/// ranks that has no right neighbour yet, for each bit that is set in the count of ranks
/// so far.
template <class Kind>
WEIR_DEVICE typename Kind::stored reduce_tree(const std::uint64_t* inputs,
                                              std::int32_t ranks, std::int32_t operation,
                                              std::int64_t i) noexcept {
  using stored = typename Kind::stored;
  using node = typename Kind::node;
  node waiting[tree_levels];
  WEIR_ROLLED
  for (std::int32_t r = 0; r < ranks; ++r) {
    const auto* part = reinterpret_cast<const stored*>(load(inputs, r));
    node sum = Kind::widen(load(part, i));
    int level = 0;
    WEIR_ROLLED
    for (; ((r >> level) & 1) != 0; ++level) {
      sum = Kind::join(waiting[level], sum, operation);
    }
    waiting[level] = sum;
  }
  // The tail that has no neighbour is carried up.
  int level = 0;
  WEIR_ROLLED
  for (; ((ranks >> level) & 1) == 0; ++level) {
  }
  node sum = waiting[level];
  WEIR_ROLLED
  for (++level; (ranks >> level) != 0; ++level) {
    if (((ranks >> level) & 1) != 0) {
      sum = Kind::join(waiting[level], sum, operation);
    }
  }
  return Kind::narrow(operation == op_average ? Kind::divide(sum, ranks) : sum);
}

/// Reduces the elements of the calling thread.
template <class Kind>
WEIR_DEVICE void reduce_tree_elements(const std::uint64_t* inputs, std::int32_t ranks,
                                      void* out, std::int64_t count,
                                      std::int32_t operation) noexcept {
  const std::int64_t step = block_count() * thread_count();
  WEIR_ROLLED
  for (std::int64_t i = block_number() * thread_count() + thread_number(); i < count;
       i += step) {
    store(static_cast<typename Kind::stored*>(out), i,
          reduce_tree<Kind>(inputs, ranks, operation, i));
  }
}

/// An exact sum of floats: a number in two's complement of `Digits` digits of 32 bits.
/// Bit 0 stands for the least number of the type, and 1024 ranks need ten bits more than
/// it.
template <int Digits>
struct exact_sum {
  std::uint32_t digits[Digits];
  bool nan;
  bool positive_infinity;
  bool negative_infinity;
  bool only_negative_zeros;
};
/// Sums of fp32 and narrower types: bit 0 stands for 2^-149, bit 276 for 2^127.
using narrow_sum = exact_sum<10>;
constexpr std::int32_t narrow_unit = 149;
/// Sums of fp64: bit 0 stands for 2^-1074, bit 2097 for 2^1023.
using wide_sum = exact_sum<66>;
constexpr std::int32_t wide_unit = 1074;

/// The parts of a float: fraction * 2^(place - unit).
struct float_parts {
  std::uint64_t fraction;
  std::uint32_t place;
  bool negative;
  bool special;  ///< an infinity or, with a fraction, a NaN
};
WEIR_DEVICE float_parts parts_of(float x) noexcept {
  const std::uint32_t bits = bits_of(x);
  const std::uint32_t exponent = bits >> 23 & 0xFFU;
  const std::uint32_t fraction = bits & 0x7FFFFFU;
  const bool special = exponent == 0xFFU;
  return {fraction | (exponent != 0 && !special ? 0x800000U : 0U),
          exponent != 0 ? exponent - 1 : 0U, (bits >> 31) != 0, special};
}
WEIR_DEVICE float_parts parts_of(double x) noexcept {
  const std::uint64_t bits = bits_of(x);
  const auto exponent = static_cast<std::uint32_t>(bits >> 52 & 0x7FFU);
  const std::uint64_t fraction = bits & 0xFFFFFFFFFFFFFU;
  const bool special = exponent == 0x7FFU;
  return {fraction | (exponent != 0 && !special ? 0x10000000000000U : 0U),
          exponent != 0 ? exponent - 1 : 0U, (bits >> 63) != 0, special};
}

/// Adds a number.
template <int Digits>
WEIR_DEVICE void add_exactly(exact_sum<Digits>& sum, float_parts x) noexcept {
  if (x.special) {
    sum.nan = sum.nan || x.fraction != 0;
    sum.positive_infinity = sum.positive_infinity || (x.fraction == 0 && !x.negative);
    sum.negative_infinity = sum.negative_infinity || (x.fraction == 0 && x.negative);
    return;
  }
  sum.only_negative_zeros = sum.only_negative_zeros && x.fraction == 0 && x.negative;
  const std::uint32_t shift = x.place % 32;
  std::uint64_t low = x.fraction << shift;
  std::uint64_t high = shift == 0 ? 0U : x.fraction >> (64 - shift);
  // Adds or subtracts digits, and carries on.
  std::uint64_t carry = 0;
  WEIR_ROLLED
  for (std::uint32_t d = x.place / 32; d < Digits && (low | high | carry) != 0; ++d) {
    const std::uint64_t part = (low & 0xFFFFFFFFU) + carry;
    low = low >> 32 | high << 32;
    high >>= 32;
    const std::uint64_t digit = sum.digits[d];
    const std::uint64_t next = x.negative ? digit - part : digit + part;
    sum.digits[d] = static_cast<std::uint32_t>(next);
    carry = x.negative ? (digit < part ? 1U : 0U) : next >> 32;
  }
}

/// Returns bits [first, first + 64) of a sum that is not negative.
template <int Digits>
WEIR_DEVICE std::uint64_t digits_at(const exact_sum<Digits>& sum,
                                    std::int32_t first) noexcept {
  const std::int32_t d = first / 32;
  const std::int32_t shift = first % 32;
  const std::uint64_t low = sum.digits[d];
  const std::uint64_t middle = d + 1 < Digits ? sum.digits[d + 1] : 0U;
  const std::uint64_t high = d + 2 < Digits ? sum.digits[d + 2] : 0U;
  const std::uint64_t lower = (middle << 32 | low) >> shift;
  return shift == 0 ? lower : lower | high << (64 - shift);
}

/// Makes a sum positive. Returns its highest bit that is set, or -1.
template <int Digits>
WEIR_DEVICE std::int32_t take_size(exact_sum<Digits>& sum, bool negative) noexcept {
  std::int32_t highest = -1;  // highest digit that is not zero
  std::uint64_t carry = 1;
  WEIR_ROLLED
  for (std::int32_t d = 0; d < Digits; ++d) {
    if (negative) {
      carry += static_cast<std::uint32_t>(~sum.digits[d]);
      sum.digits[d] = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
    highest = sum.digits[d] != 0 ? d : highest;
  }
  if (highest < 0) {
    return -1;
  }
  std::int32_t top = 31;
  WEIR_ROLLED
  while ((sum.digits[highest] >> top & 1U) == 0) {
    --top;
  }
  return highest * 32 + top;
}

/// Returns true if one of the bits [0, end) is set.
template <int Digits>
WEIR_DEVICE bool any_bit_below(const exact_sum<Digits>& sum, std::int32_t end) noexcept {
  bool found = false;
  WEIR_ROLLED
  for (std::int32_t b = 0; b < end; b += 32) {
    const std::uint32_t part = sum.digits[b / 32];
    const std::int32_t valid = end - b;
    found = found || (valid >= 32 ? part : part & ((1U << valid) - 1)) != 0;
  }
  return found;
}

/// Returns the sum rounded to `precision` bits, at most 53, whose last one stands for at
/// least 2^(least - unit).
template <int Digits>
WEIR_DEVICE double rounded(exact_sum<Digits>& sum, std::int32_t unit,
                           std::int32_t precision, std::int32_t least) noexcept {
  if (sum.nan || (sum.positive_infinity && sum.negative_infinity)) {
    return double_from(0x7FF8000000000000U);
  }
  if (sum.positive_infinity || sum.negative_infinity) {
    return double_from(sum.positive_infinity ? 0x7FF0000000000000U : 0xFFF0000000000000U);
  }
  const bool negative = (sum.digits[Digits - 1] >> 31) != 0;
  const std::int32_t top = take_size(sum, negative);
  if (top < 0) {
    return double_from(sum.only_negative_zeros ? 0x8000000000000000U : 0U);
  }
  const std::int32_t cut = top + 1 - precision;
  const std::int32_t last = cut > least ? cut : least;
  std::uint64_t kept = last > top ? 0U : digits_at(sum, last);
  if (last > 0) {
    const bool half = (digits_at(sum, last - 1) & 1U) != 0;
    const bool up = half && ((kept & 1U) != 0 || any_bit_below(sum, last - 1));
    kept += up ? 1U : 0U;
  }
  // The number is kept * 2^(place - 1074). Its leading bit moves to place 52, unless the
  // number is subnormal.
  std::int32_t place = last + wide_unit - unit;
  if (kept >> 53 != 0) {  // rounding gave one more bit
    kept >>= 1;
    ++place;
  }
  WEIR_ROLLED
  while (place > 0 && kept != 0 && kept >> 52 == 0) {
    kept <<= 1;
    --place;
  }
  const std::uint64_t exponent =
      kept >> 52 != 0 ? static_cast<std::uint64_t>(place) + 1 : 0U;
  const std::uint64_t size = exponent >= 0x7FFU
                                 ? 0x7FF0000000000000U
                                 : exponent << 52 | (kept & 0xFFFFFFFFFFFFFU);
  return double_from(size | (negative ? 0x8000000000000000U : 0U));
}

/// Returns the float next to a number, with an odd last bit if it is not exact: rounding
/// it to fewer bits gives what rounding the number would.
WEIR_DEVICE float rounded_to_odd(double x) noexcept {
  const auto nearest = static_cast<float>(x);
  const auto back = static_cast<double>(nearest);
  const std::uint32_t bits = bits_of(nearest);
  if (x != x || back == x || (bits & 1U) != 0) {
    return nearest;
  }
  const bool below = (back < x) == (back >= 0);  // nearer to zero than the number
  return float_from(below ? bits + 1 : bits - 1);
}

/// Returns element `i` of a type of at most 32 bits.
WEIR_DEVICE float narrow_element(const void* from, std::int32_t type,
                                 std::int64_t i) noexcept {
  if (type <= 2) {
    const std::uint8_t code = load(static_cast<const std::uint8_t*>(from), i);
    return type == 1 ? fp8_e4m3_to_float(code) : fp8_e5m2_to_float(code);
  }
  if (type <= 4) {
    const std::uint16_t code = load(static_cast<const std::uint16_t*>(from), i);
    return type == 3 ? fp16_to_float(code) : bf16_to_float(code);
  }
  return load(static_cast<const float*>(from), i);
}

/// Stores a number as element `i` of a type of at most 32 bits.
WEIR_DEVICE void store_narrow(void* out, std::int32_t type, std::int64_t i,
                              double x) noexcept {
  if (type == 5) {
    store(static_cast<float*>(out), i, canonical(static_cast<float>(x)));
    return;
  }
  const float odd = canonical(rounded_to_odd(x));
  if (type <= 2) {
    store(static_cast<std::uint8_t*>(out), i,
          type == 1 ? e4m3_from(odd) : e5m2_from(odd));
    return;
  }
  store(static_cast<std::uint16_t*>(out), i,
        type == 3 ? float_to_fp16(odd) : float_to_bf16(odd));
}

/// Bits that a type keeps, and the last of them that there is: 2^(least - 149).
struct type_precision {
  std::int32_t bits;
  std::int32_t least;
};
WEIR_DEVICE type_precision precision_of(std::int32_t type) noexcept {
  switch (type) {
    case 1: return {4, 140};
    case 2: return {3, 133};
    case 3: return {11, 125};
    case 4: return {8, 16};
    default: return {24, 0};
  }
}

/// Adds the elements of the calling thread exactly: types of at most 32 bits.
WEIR_DEVICE void add_narrow_elements(const std::uint64_t* inputs, std::int32_t ranks,
                                     void* out, std::int64_t count, std::int32_t type,
                                     bool average) noexcept {
  // The sum of an average is rounded to fp64.
  const type_precision p = average ? type_precision{53, 0} : precision_of(type);
  const std::int64_t step = block_count() * thread_count();
  WEIR_ROLLED
  for (std::int64_t i = block_number() * thread_count() + thread_number(); i < count;
       i += step) {
    narrow_sum sum{};
    sum.only_negative_zeros = true;
    WEIR_ROLLED
    for (std::int32_t r = 0; r < ranks; ++r) {
      const auto* const part = reinterpret_cast<const void*>(load(inputs, r));
      add_exactly(sum, parts_of(narrow_element(part, type, i)));
    }
    const double whole = rounded(sum, narrow_unit, p.bits, p.least);
    store_narrow(out, type, i, average ? whole / ranks : whole);
  }
}

/// Adds the elements of the calling thread exactly: fp64.
WEIR_DEVICE void add_wide_elements(const std::uint64_t* inputs, std::int32_t ranks,
                                   double* out, std::int64_t count,
                                   bool average) noexcept {
  const std::int64_t step = block_count() * thread_count();
  WEIR_ROLLED
  for (std::int64_t i = block_number() * thread_count() + thread_number(); i < count;
       i += step) {
    wide_sum sum{};
    sum.only_negative_zeros = true;
    WEIR_ROLLED
    for (std::int32_t r = 0; r < ranks; ++r) {
      const auto* const part = reinterpret_cast<const double*>(load(inputs, r));
      add_exactly(sum, parts_of(load(part, i)));
    }
    const double whole = rounded(sum, wide_unit, 53, 0);
    store(out, i, canonical(average ? whole / ranks : whole));
  }
}

}  // namespace weir::device_code

/// Reduces `count` elements of `ranks` inputs along the canonical tree.
WEIR_KERNEL weir_reduce_tree(const std::uint64_t* inputs, std::int32_t ranks, void* out,
                             std::int64_t count, std::int32_t type,
                             std::int32_t operation) {
  using namespace weir::device_code;
  if (ranks < 1 || ranks > 1024) {
    return;
  }
#define WEIR_REDUCE(number, kind) \
  case number: reduce_tree_elements<kind>(inputs, ranks, out, count, operation); break
  switch (type) {
    WEIR_REDUCE(0, as_fp32_wide);
    WEIR_REDUCE(1, as_e4m3);
    WEIR_REDUCE(2, as_e5m2);
    WEIR_REDUCE(3, as_fp16);
    WEIR_REDUCE(4, as_bf16);
    WEIR_REDUCE(5, as_fp32);
    WEIR_REDUCE(6, as_fp64);
    WEIR_REDUCE(7, as_integer<std::int8_t>);
    WEIR_REDUCE(8, as_integer<std::int16_t>);
    WEIR_REDUCE(9, as_integer<std::int32_t>);
    WEIR_REDUCE(10, as_integer<std::int64_t>);
    WEIR_REDUCE(11, as_boolean);
    WEIR_REDUCE(12, as_complex<float>);
    WEIR_REDUCE(13, as_complex<double>);
    default: break;
  }
#undef WEIR_REDUCE
}

/// Adds `count` elements of `ranks` inputs and rounds each sum once. Types: 1 to 6.
/// Operations: 0 sum; 4 average, which divides the sum, rounded to fp64, and rounds
/// again.
WEIR_KERNEL weir_sum_exact(const std::uint64_t* inputs, std::int32_t ranks, void* out,
                           std::int64_t count, std::int32_t type,
                           std::int32_t operation) {
  using namespace weir::device_code;
  if (ranks < 1 || ranks > 1024 || type < 1 || type > 6) {
    return;
  }
  const bool average = operation == op_average;
  if (type == 6) {
    add_wide_elements(inputs, ranks, static_cast<double*>(out), count, average);
  } else {
    add_narrow_elements(inputs, ranks, out, count, type, average);
  }
}
