// SPDX-License-Identifier: Apache-2.0
/// @file
/// The oracle of reductions. It computes results by other means than the library: floats
/// as doubles with tables of all codes, trees by pairing neighbours of a list, and exact
/// sums as integers of 2300 bits.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "weir/collective/reduction.hpp"

namespace weir::collective::test {

using bytes = std::vector<std::byte>;

inline constexpr std::array<dtype, 13> all_types = {
    dtype::fp8_e4m3, dtype::fp8_e5m2,  dtype::fp16,      dtype::bf16,  dtype::fp32,
    dtype::fp64,     dtype::int8,      dtype::int16,     dtype::int32, dtype::int64,
    dtype::boolean,  dtype::complex64, dtype::complex128};
inline constexpr std::array<reduction_op, 5> all_ops = {
    reduction_op::sum, reduction_op::max, reduction_op::min, reduction_op::product,
    reduction_op::average};

/// A binary floating point format. Codes without their sign bit ascend with the values.
struct float_format {
  int bits;
  int fraction;
  int bias;
  bool has_infinity;
  std::uint64_t nan;      ///< the canonical NaN
  std::uint64_t largest;  ///< the largest finite value
  bool saturates;
};
inline float_format format_of(dtype type) {
  switch (type) {
    case dtype::fp8_e4m3: return {8, 3, 7, false, 0x7F, 0x7E, true};
    case dtype::fp8_e5m2: return {8, 2, 15, true, 0x7E, 0x7B, true};
    case dtype::fp16: return {16, 10, 15, true, 0x7E00, 0x7BFF, false};
    case dtype::bf16: return {16, 7, 127, true, 0x7FC0, 0x7F7F, false};
    case dtype::fp32:
    case dtype::complex64: return {32, 23, 127, true, 0x7FC00000, 0x7F7FFFFF, false};
    default: return {64, 52, 1023, true, 0x7FF8000000000000, 0x7FEFFFFFFFFFFFFF, false};
  }
}
inline std::uint64_t sign_bit(const float_format& f) {
  return std::uint64_t{1} << (f.bits - 1);
}

/// The number significand * 2^exponent.
struct scaled {
  std::int64_t significand;
  int exponent;
};
/// Returns the exact value of a finite code.
inline scaled scaled_of(const float_format& f, std::uint64_t code) {
  const std::uint64_t size = code & (sign_bit(f) - 1);
  const auto field = static_cast<int>(size >> f.fraction);
  auto significand =
      static_cast<std::int64_t>(size & ((std::uint64_t{1} << f.fraction) - 1));
  significand += field > 0 ? std::int64_t{1} << f.fraction : 0;
  const int exponent = std::max(field, 1) - f.bias - f.fraction;
  return {(code & sign_bit(f)) != 0 ? -significand : significand, exponent};
}
inline bool is_nan(const float_format& f, std::uint64_t code) {
  const std::uint64_t size = code & (sign_bit(f) - 1);
  return size > f.largest + (f.has_infinity ? 1 : 0);
}
inline bool is_infinite(const float_format& f, std::uint64_t code) {
  return f.has_infinity && (code & (sign_bit(f) - 1)) == f.largest + 1;
}
/// Returns the value of a code in double precision.
inline double value_of(const float_format& f, std::uint64_t code) {
  const bool negative = (code & sign_bit(f)) != 0;
  if (is_nan(f, code)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (is_infinite(f, code)) {
    return negative ? -HUGE_VAL : HUGE_VAL;
  }
  const scaled s = scaled_of(f, code);
  const double size =
      std::ldexp(static_cast<double>(std::abs(s.significand)), s.exponent);
  return negative ? -size : size;
}

/// An integer of 2304 bits that counts units of 2^-1076.
class huge_integer {
 public:
  void add(scaled x) {
    const auto position = static_cast<std::size_t>(x.exponent + 1076);
    huge_integer term;
    const auto size = static_cast<std::uint64_t>(std::abs(x.significand));
    for (std::size_t b = 0; b < 63; ++b) {
      if (((size >> b) & 1U) != 0) {
        term.limbs_[(position + b) / 32] |= 1U << ((position + b) % 32);
      }
    }
    if (x.significand < 0) {
      term.negate();
    }
    add(term);
  }
  void add(const huge_integer& other) {
    std::uint64_t carry = 0;
    for (std::size_t i = 0; i < limbs_.size(); ++i) {
      carry += static_cast<std::uint64_t>(limbs_[i]) + other.limbs_[i];
      limbs_[i] = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
  }
  void negate() {
    std::uint64_t carry = 1;
    for (std::uint32_t& limb : limbs_) {
      carry += static_cast<std::uint32_t>(~limb);
      limb = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
  }
  [[nodiscard]] bool negative() const { return (limbs_.back() >> 31) != 0; }
  [[nodiscard]] bool zero() const {
    return std::all_of(limbs_.begin(), limbs_.end(), [](auto l) { return l == 0; });
  }
  /// Returns -1, 0 or 1.
  [[nodiscard]] int sign() const { return negative() ? -1 : zero() ? 0 : 1; }

 private:
  std::array<std::uint32_t, 72> limbs_{};
};

/// Returns whether `code` is `exact` rounded to nearest even. `exact` must be finite and
/// not zero.
inline bool is_nearest(const float_format& f, const huge_integer& exact,
                       std::uint64_t code) {
  if (is_nan(f, code)) {
    return false;
  }
  const bool negative = exact.negative();
  if (negative != ((code & sign_bit(f)) != 0)) {
    return false;
  }
  huge_integer size = exact;
  if (negative) {
    size.negate();
  }
  const std::uint64_t magnitude = code & (sign_bit(f) - 1);
  // Compares twice the value with the sum of two neighbours, which tells on which side of
  // their midpoint it lies.
  const auto side = [&](std::uint64_t low, std::uint64_t high) {
    huge_integer difference = size;
    difference.add(size);
    for (const std::uint64_t neighbour : {low, high}) {
      scaled s = scaled_of(f, neighbour);
      s.significand = -s.significand;
      difference.add(s);
    }
    return difference.sign();
  };
  const bool even = magnitude % 2 == 0;
  const bool top = magnitude == f.largest;
  const int above_low = magnitude == 0 ? 1 : side(magnitude - 1, magnitude);
  const int above_high =
      is_infinite(f, code) || (top && f.saturates) ? -1 : side(magnitude, magnitude + 1);
  return (above_low > 0 || (above_low == 0 && even)) &&
         (above_high < 0 || (above_high == 0 && even));
}

/// Rounds a finite value that is not zero to nearest even by a binary search of the
/// codes.
inline std::uint64_t nearest_code(const float_format& f, const huge_integer& exact) {
  const std::uint64_t sign = exact.negative() ? sign_bit(f) : 0;
  huge_integer size = exact;
  if (exact.negative()) {
    size.negate();
  }
  // Finds the last code whose value is not above the size.
  std::uint64_t low = 0;
  std::uint64_t high = f.largest + 1;
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    huge_integer rest = size;
    scaled s = scaled_of(f, middle);
    s.significand = -s.significand;
    rest.add(s);
    (rest.sign() >= 0 ? low : high) = middle;
  }
  if (is_nearest(f, exact, low | sign)) {
    return low | sign;
  }
  return (low + 1) | sign;
}
/// Returns the code nearest to x, ties to even.
inline std::uint64_t rounded(const float_format& f, double x) {
  const std::uint64_t sign = std::signbit(x) ? sign_bit(f) : 0;
  if (std::isnan(x)) {
    return f.nan;
  }
  if (std::isinf(x)) {
    return sign | (f.has_infinity ? f.largest + 1 : f.largest);
  }
  std::uint64_t code = 0;
  if (f.bits == 64) {
    std::memcpy(&code, &x, sizeof x);
    return code;
  }
  if (f.bits == 32) {
    const auto single = static_cast<float>(x);
    std::memcpy(&code, &single, sizeof single);
    return code;
  }
  // Codes ascend with the values, and the sum of two neighbours is exact in fp64.
  const double size = std::abs(x);
  std::uint64_t low = 0;
  std::uint64_t high = f.largest + 1;
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (value_of(f, middle) <= size ? low : high) = middle;
  }
  const scaled next = scaled_of(f, low + 1);
  const double above = std::ldexp(static_cast<double>(next.significand), next.exponent);
  const double middle = (value_of(f, low) + above) / 2;
  const bool up = size > middle || (size == middle && low % 2 == 1);
  return sign | (up && !(f.saturates && low == f.largest) ? low + 1 : low);
}

/// Reads a code of `bits` bits.
inline std::uint64_t code_at(const std::byte* address, int bits) {
  std::uint64_t code = 0;
  std::memcpy(&code, address, static_cast<std::size_t>(bits / 8));
  return code;
}
inline void put_code(std::byte* address, int bits, std::uint64_t code) {
  std::memcpy(address, &code, static_cast<std::size_t>(bits / 8));
}

/// Combines neighbours of a list until one value is left.
template <class T, class F>
T paired(std::vector<T> values, F op) {
  while (values.size() > 1) {
    std::vector<T> next;
    for (std::size_t i = 0; i + 1 < values.size(); i += 2) {
      next.push_back(op(values[i], values[i + 1]));
    }
    if (values.size() % 2 == 1) {
      next.push_back(values.back());
    }
    values = std::move(next);
  }
  return values[0];
}

/// Returns the largest or the smallest value, with the rules for NaN and signed zeros.
inline double extreme(const std::vector<double>& values, bool largest) {
  double best = values[0];
  for (const double x : values) {
    if (std::isnan(x) || std::isnan(best)) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    const bool less = x < best || (x == best && std::signbit(x) && !std::signbit(best));
    const bool more = x > best || (x == best && !std::signbit(x) && std::signbit(best));
    best = (largest ? more : less) ? x : best;
  }
  return best;
}

/// Returns the sum or product with nodes of type N, as level 1 defines it.
template <class N>
double noded(const std::vector<double>& values, reduction_op op) {
  std::vector<N> nodes;
  for (const double x : values) {
    nodes.push_back(static_cast<N>(x));
  }
  N whole = paired(nodes, [&](N a, N b) {
    return op == reduction_op::product ? static_cast<N>(a * b) : static_cast<N>(a + b);
  });
  if (op == reduction_op::average) {
    whole = whole / static_cast<N>(values.size());
  }
  return static_cast<double>(whole);
}

/// Returns the sum or the average, computed exactly and rounded once, as level 2 defines
/// it.
inline std::uint64_t exact_sum(const float_format& f, const std::vector<double>& values,
                               bool average) {
  const float_format fp64 = format_of(dtype::fp64);
  huge_integer exact;
  bool negative_zero = true;
  double special = 0;
  for (const double x : values) {
    negative_zero = negative_zero && x == 0 && std::signbit(x);
    special += std::isfinite(x) ? 0 : x;
    if (std::isfinite(x) && x != 0) {
      std::uint64_t code = 0;
      std::memcpy(&code, &x, sizeof x);
      exact.add(scaled_of(fp64, code));
    }
  }
  if (special != 0 || std::isnan(special)) {
    return rounded(f, special);
  }
  if (exact.zero()) {
    return negative_zero ? sign_bit(f) : 0;
  }
  // Starts from an approximate sum. If the exact integers confirm it, no search is
  // needed.
  long double roughly = 0;
  for (const double x : values) {
    roughly += static_cast<long double>(x);
  }
  const auto rounded_to = [&](const float_format& format) {
    const std::uint64_t guess = rounded(format, static_cast<double>(roughly));
    return is_nearest(format, exact, guess) ? guess : nearest_code(format, exact);
  };
  if (!average) {
    return rounded_to(f);
  }
  const double sum = value_of(fp64, rounded_to(fp64));
  return rounded(f, sum / static_cast<double>(values.size()));
}

/// Reduces the codes of one floating point element.
inline std::uint64_t reduced_float(const reduction& operation, dtype type,
                                   const std::vector<std::uint64_t>& codes) {
  const float_format f = format_of(type);
  std::vector<double> values;
  for (const std::uint64_t code : codes) {
    values.push_back(value_of(f, code));
  }
  const bool adds =
      operation.op == reduction_op::sum || operation.op == reduction_op::average;
  if (operation.op == reduction_op::max || operation.op == reduction_op::min) {
    return rounded(f, extreme(values, operation.op == reduction_op::max));
  }
  if (operation.level == 2 && adds) {
    return exact_sum(f, values, operation.op == reduction_op::average);
  }
  const bool fp64_nodes = f.bits == 64 || (operation.wide && f.bits == 32);
  return rounded(f, fp64_nodes ? noded<double>(values, operation.op)
                               : noded<float>(values, operation.op));
}

/// Reduces the codes of one integer element.
inline std::uint64_t reduced_integer(reduction_op op, int bits,
                                     const std::vector<std::uint64_t>& codes) {
  const auto extended = [&](std::uint64_t code) {
    return static_cast<std::int64_t>(code << (64 - bits)) >> (64 - bits);
  };
  std::uint64_t whole = codes[0];
  for (std::size_t r = 1; r < codes.size(); ++r) {
    switch (op) {
      case reduction_op::sum:
      case reduction_op::average: whole += codes[r]; break;
      case reduction_op::product: whole *= codes[r]; break;
      case reduction_op::max:
        whole = extended(codes[r]) > extended(whole) ? codes[r] : whole;
        break;
      case reduction_op::min:
        whole = extended(codes[r]) < extended(whole) ? codes[r] : whole;
        break;
    }
  }
  if (op == reduction_op::average) {
    const auto n = static_cast<std::int64_t>(codes.size());
    whole = static_cast<std::uint64_t>(extended(whole) / n);
  }
  return whole;
}

/// Reduces the codes of one Boolean element.
inline std::uint64_t reduced_bool(reduction_op op,
                                  const std::vector<std::uint64_t>& codes) {
  const auto set = static_cast<std::size_t>(
      std::count_if(codes.begin(), codes.end(), [](auto c) { return c != 0; }));
  const bool any = op == reduction_op::sum || op == reduction_op::max;
  return (any ? set > 0 : set == codes.size()) ? 1 : 0;
}

/// Multiplies the complex numbers of one element along the canonical tree.
template <class T>
void multiply_complex(const std::vector<const std::byte*>& elements, std::byte* to) {
  std::vector<std::array<T, 2>> values(elements.size());
  for (std::size_t r = 0; r < elements.size(); ++r) {
    std::memcpy(values[r].data(), elements[r], 2 * sizeof(T));
  }
  auto whole = paired(values, [](std::array<T, 2> a, std::array<T, 2> b) {
    return std::array<T, 2>{a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]};
  });
  for (T& x : whole) {
    x = std::isnan(x) ? std::copysign(std::numeric_limits<T>::quiet_NaN(), T{1}) : x;
  }
  std::memcpy(to, whole.data(), 2 * sizeof(T));
}

/// Reduces one element over all ranks.
inline void reduce_element(const reduction& operation,
                           const std::vector<const std::byte*>& elements, std::byte* to) {
  const bool complex =
      operation.type == dtype::complex64 || operation.type == dtype::complex128;
  if (complex && operation.op == reduction_op::product) {
    return operation.type == dtype::complex64 ? multiply_complex<float>(elements, to)
                                              : multiply_complex<double>(elements, to);
  }
  const int bits =
      complex ? format_of(operation.type).bits : info_of(operation.type).size * 8;
  for (int part = 0; part < (complex ? 2 : 1); ++part) {
    const auto offset = static_cast<std::ptrdiff_t>(part * bits / 8);
    std::vector<std::uint64_t> codes;
    for (const std::byte* p : elements) {
      codes.push_back(code_at(p + offset, bits));
    }
    std::uint64_t whole = 0;
    if (operation.type == dtype::boolean) {
      whole = reduced_bool(operation.op, codes);
    } else if (operation.type >= dtype::int8 && operation.type <= dtype::int64) {
      whole = reduced_integer(operation.op, bits, codes);
    } else {
      whole = reduced_float(operation, operation.type, codes);
    }
    put_code(to + offset, bits, whole);
  }
}

/// Returns the reduction of the inputs of all ranks.
inline bytes reduced(const reduction& operation, const std::vector<bytes>& inputs) {
  bytes out(inputs[0].size());
  const std::size_t size = info_of(operation.type).size;
  for (std::size_t i = 0; i < out.size(); i += size) {
    std::vector<const std::byte*> elements;
    for (const bytes& input : inputs) {
      elements.push_back(input.data() + i);
    }
    reduce_element(operation, elements, out.data() + i);
  }
  return out;
}

/// Kinds of random numbers in a buffer.
enum class flavour {
  codes,    ///< any bits, among them NaN, infinities and subnormals
  normal,   ///< N(0,1)
  wide,     ///< exponents between -30 and 30
  special,  ///< signed zeros, infinities, NaN, extreme values
};

inline void put_number(std::byte* address, dtype type, double x) {
  const float_format f = format_of(type);
  put_code(address, f.bits, rounded(f, x));
}

/// Returns `count` elements of random numbers of the type.
inline bytes random_elements(std::mt19937_64& dice, dtype type, std::size_t count,
                             flavour kind) {
  const std::size_t size = info_of(type).size;
  bytes out(count * size);
  const bool integer = type >= dtype::int8 && type <= dtype::boolean;
  if (kind == flavour::codes || integer) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = static_cast<std::byte>(dice());
      if (type == dtype::boolean && dice() % 2 == 0) {
        out[i] = std::byte{0};
      }
    }
    return out;
  }
  if (kind == flavour::special) {
    const float_format f = format_of(type);
    const std::array<std::uint64_t, 6> sizes = {
        0, 0, 1, f.largest, f.largest + (f.has_infinity ? 1 : 0), f.nan};
    // Uses few kinds of numbers at a time, so that sums of -0 alone occur.
    const std::size_t kinds = 1 + dice() % sizes.size();
    const std::size_t width = static_cast<std::size_t>(f.bits) / 8;
    for (std::size_t i = 0; i < out.size(); i += width) {
      put_code(out.data() + i, f.bits,
               sizes[dice() % kinds] | (dice() % 4 != 0 ? sign_bit(f) : 0));
    }
    return out;
  }
  std::normal_distribution<double> normal;
  std::uniform_int_distribution<int> exponent(-30, 30);
  const auto part = static_cast<std::size_t>(format_of(type).bits / 8);
  for (std::size_t i = 0; i < out.size(); i += part) {
    const double x = normal(dice);
    put_number(out.data() + i, type,
               kind == flavour::wide ? std::ldexp(x, exponent(dice)) : x);
  }
  return out;
}

}  // namespace weir::collective::test
