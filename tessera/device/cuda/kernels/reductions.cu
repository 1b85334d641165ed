// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reductions over ranks at level 1, along the canonical tree, and at level 2, rounded
/// once. They have the bits of `weir::collective::reducer`.
///
/// `inputs` holds one address for each of up to 1024 ranks, in the order of ranks. All
/// inputs of an element are read before it is written, so `out` may be one of them.
/// Types: 0 fp32, 1 fp16, 2 bf16, 3 fp64. Operations: 0 sum, 1 product, 2 maximum,
/// 3 minimum.
#include "kernels/device.hpp"
#include "weir/base/small_floats.hpp"

namespace weir::device_code {

/// Height of the canonical tree over 1024 ranks, and one more for a single rank.
constexpr int tree_levels = 11;

/// An element as it is stored, and the node that it becomes.
struct as_fp32 {
  using stored = float;
  using node = float;
  WEIR_DEVICE static float widen(float x) noexcept { return x; }
  WEIR_DEVICE static float narrow(float x) noexcept { return canonical(x); }
};
struct as_fp16 {
  using stored = std::uint16_t;
  using node = float;
  WEIR_DEVICE static float widen(std::uint16_t x) noexcept { return fp16_to_float(x); }
  WEIR_DEVICE static std::uint16_t narrow(float x) noexcept {
    return float_to_fp16(canonical(x));
  }
};
struct as_bf16 {
  using stored = std::uint16_t;
  using node = float;
  WEIR_DEVICE static float widen(std::uint16_t x) noexcept { return bf16_to_float(x); }
  WEIR_DEVICE static std::uint16_t narrow(float x) noexcept {
    return float_to_bf16(canonical(x));
  }
};
struct as_fp64 {
  using stored = double;
  using node = double;
  WEIR_DEVICE static double widen(double x) noexcept { return x; }
  WEIR_DEVICE static double narrow(double x) noexcept { return canonical(x); }
};

/// Returns an integer that compares as the number does, with -0 below +0.
WEIR_DEVICE std::int32_t order_key(float x) noexcept {
  const auto bits = static_cast<std::int32_t>(bits_of(x));
  return bits ^ ((bits >> 31) & 0x7FFFFFFF);
}
WEIR_DEVICE std::int64_t order_key(double x) noexcept {
  const auto bits = static_cast<std::int64_t>(bits_of(x));
  return bits ^ ((bits >> 63) & 0x7FFFFFFFFFFFFFFF);
}

/// Joins two nodes; the lower rank is on the left.
template <class N>
WEIR_DEVICE N join(N left, N right, std::int32_t operation) noexcept {
  if (operation == 0) {
    return left + right;
  }
  if (operation == 1) {
    return left * right;
  }
  const bool larger = order_key(left) > order_key(right);
  const N chosen = larger == (operation == 2) ? left : right;
  // A NaN plus a number is a NaN.
  return left == left && right == right ? chosen : left + right;
}

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
      sum = join(waiting[level], sum, operation);
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
      sum = join(waiting[level], sum, operation);
    }
  }
  return Kind::narrow(sum);
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

/// Number of digits of 32 bits of an exact sum of fp32: bit 0 stands for 2^-149, bit 276
/// for 2^127, and 1024 ranks need ten bits more.
constexpr int exact_digits = 10;

/// An exact sum of floats: a number in two's complement.
struct exact_sum {
  std::uint32_t digits[exact_digits];
  bool nan;
  bool positive_infinity;
  bool negative_infinity;
  bool only_negative_zeros;
};

/// Adds a number.
WEIR_DEVICE void add_exactly(exact_sum& sum, float x) noexcept {
  const std::uint32_t bits = bits_of(x);
  const std::uint32_t exponent = bits >> 23 & 0xFFU;
  const bool negative = (bits >> 31) != 0;
  std::uint64_t fraction = bits & 0x7FFFFFU;
  if (exponent == 0xFFU) {
    sum.nan = sum.nan || fraction != 0;
    sum.positive_infinity = sum.positive_infinity || (fraction == 0 && !negative);
    sum.negative_infinity = sum.negative_infinity || (fraction == 0 && negative);
    return;
  }
  sum.only_negative_zeros = sum.only_negative_zeros && bits == 0x80000000U;
  fraction |= exponent != 0 ? 0x800000U : 0U;
  const std::uint32_t place = exponent != 0 ? exponent - 1 : 0;
  fraction <<= place % 32;
  // Adds or subtracts two digits and carries on to the last digit.
  std::uint64_t carry = 0;
  WEIR_ROLLED
  for (std::uint32_t d = place / 32; d < exact_digits; ++d) {
    const std::uint64_t part = (fraction & 0xFFFFFFFFU) + carry;
    fraction >>= 32;
    const std::uint64_t digit = sum.digits[d];
    const std::uint64_t next = negative ? digit - part : digit + part;
    sum.digits[d] = static_cast<std::uint32_t>(next);
    carry = negative ? (digit < part ? 1U : 0U) : next >> 32;
  }
}

/// Returns bits [first, first + 32) of a sum that is not negative.
WEIR_DEVICE std::uint32_t digits_at(const exact_sum& sum, std::int32_t first) noexcept {
  const std::int32_t d = first / 32;
  const std::uint64_t low = sum.digits[d];
  const std::uint64_t high = d + 1 < exact_digits ? sum.digits[d + 1] : 0U;
  return static_cast<std::uint32_t>((high << 32 | low) >> (first % 32));
}

/// Returns the sum rounded to `precision` bits, at most 24, whose last one stands for at
/// least 2^(least - 149).
WEIR_DEVICE float rounded(exact_sum& sum, std::int32_t precision,
                          std::int32_t least) noexcept {
  if (sum.nan || (sum.positive_infinity && sum.negative_infinity)) {
    return float_from(0x7FC00000U);
  }
  if (sum.positive_infinity || sum.negative_infinity) {
    return float_from(sum.positive_infinity ? 0x7F800000U : 0xFF800000U);
  }
  const bool negative = (sum.digits[exact_digits - 1] >> 31) != 0;
  std::int32_t top = -1;  // highest bit that is set
  std::uint64_t carry = 1;
  WEIR_ROLLED
  for (std::int32_t d = 0; d < exact_digits; ++d) {
    if (negative) {
      carry += static_cast<std::uint32_t>(~sum.digits[d]);
      sum.digits[d] = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
    WEIR_ROLLED
    for (std::int32_t b = 0; b < 32; ++b) {
      top = (sum.digits[d] >> b & 1U) != 0 ? d * 32 + b : top;
    }
  }
  if (top < 0) {
    return float_from(sum.only_negative_zeros ? 0x80000000U : 0U);
  }
  const std::int32_t cut = top + 1 - precision;
  const std::int32_t last = cut > least ? cut : least;
  std::uint32_t kept = last > top ? 0U : digits_at(sum, last);
  if (last > 0) {
    const bool half = (digits_at(sum, last - 1) & 1U) != 0;
    bool below = false;
    WEIR_ROLLED
    for (std::int32_t b = 0; b < last - 1; b += 32) {
      const std::uint32_t part = digits_at(sum, b);
      const std::int32_t valid = last - 1 - b;
      below = below || (valid >= 32 ? part : part & ((1U << valid) - 1)) != 0;
    }
    kept += half && (below || (kept & 1U) != 0) ? 1U : 0U;
  }
  std::int32_t place = last;
  if (kept >> 24 != 0) {  // rounding gave one more bit
    kept >>= 1;
    ++place;
  }
  // Moves the leading bit to place 23, unless the number is subnormal.
  WEIR_ROLLED
  while (place > 0 && kept != 0 && (kept & 0x800000U) == 0) {
    kept <<= 1;
    --place;
  }
  const bool normal = (kept & 0x800000U) != 0;
  const std::uint32_t exponent = normal ? static_cast<std::uint32_t>(place + 1) : 0U;
  const std::uint32_t size =
      exponent >= 0xFFU ? 0x7F800000U : exponent << 23 | (kept & 0x7FFFFFU);
  return float_from(size | (negative ? 0x80000000U : 0U));
}

/// Adds the elements of the calling thread exactly.
template <class Kind>
WEIR_DEVICE void add_elements_exactly(const std::uint64_t* inputs, std::int32_t ranks,
                                      void* out, std::int64_t count,
                                      std::int32_t precision,
                                      std::int32_t least) noexcept {
  using stored = typename Kind::stored;
  const std::int64_t step = block_count() * thread_count();
  WEIR_ROLLED
  for (std::int64_t i = block_number() * thread_count() + thread_number(); i < count;
       i += step) {
    exact_sum sum{};
    sum.only_negative_zeros = true;
    WEIR_ROLLED
    for (std::int32_t r = 0; r < ranks; ++r) {
      const auto* part = reinterpret_cast<const stored*>(load(inputs, r));
      add_exactly(sum, Kind::widen(load(part, i)));
    }
    store(static_cast<stored*>(out), i, Kind::narrow(rounded(sum, precision, least)));
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
  switch (type) {
    case 0: reduce_tree_elements<as_fp32>(inputs, ranks, out, count, operation); break;
    case 1: reduce_tree_elements<as_fp16>(inputs, ranks, out, count, operation); break;
    case 2: reduce_tree_elements<as_bf16>(inputs, ranks, out, count, operation); break;
    case 3: reduce_tree_elements<as_fp64>(inputs, ranks, out, count, operation); break;
    default: break;
  }
}

/// Adds `count` elements of `ranks` inputs and rounds each sum once. Types: 0 fp32, 1
/// fp16, 2 bf16.
WEIR_KERNEL weir_sum_exact(const std::uint64_t* inputs, std::int32_t ranks, void* out,
                           std::int64_t count, std::int32_t type) {
  using namespace weir::device_code;
  if (ranks < 1 || ranks > 1024) {
    return;
  }
  switch (type) {
    case 0: add_elements_exactly<as_fp32>(inputs, ranks, out, count, 24, 0); break;
    case 1: add_elements_exactly<as_fp16>(inputs, ranks, out, count, 11, 125); break;
    case 2: add_elements_exactly<as_bf16>(inputs, ranks, out, count, 8, 16); break;
    default: break;
  }
}
