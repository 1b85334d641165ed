// SPDX-License-Identifier: Apache-2.0
/// @file
/// The arithmetic of PTX instructions.
///
/// A float operation that makes a NaN gives one with bits that differ from the canonical
/// NaN of the kernels: a kernel that does not make its results canonical is found.
#include <cmath>
#include <cstring>

#include <fmt/core.h>

#include "ptx/module.hpp"

namespace weir::tessera::ptx {
namespace {

std::uint64_t mask_of(int bits) {
  return bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
}
std::int64_t sign_extended(std::uint64_t x, int bits) {
  const std::uint64_t sign = std::uint64_t{1} << (bits - 1);
  return static_cast<std::int64_t>(((x & mask_of(bits)) ^ sign) - sign);
}
float float_at(std::uint64_t x) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(x));
}
double double_at(std::uint64_t x) {
  return __builtin_bit_cast(double, x);
}
std::uint64_t bits_from(float x) {
  return x == x ? __builtin_bit_cast(std::uint32_t, x) : 0x7FFFFFFFU;
}
std::uint64_t bits_from(double x) {
  return x == x ? __builtin_bit_cast(std::uint64_t, x) : 0xFFF8000000000000U;
}

template <class T>
std::uint64_t float_result(operation op, T a, T b, T c) {
  switch (op) {
    case operation::add: return bits_from(a + b);
    case operation::sub: return bits_from(a - b);
    case operation::mul_lo: return bits_from(a * b);
    case operation::div: return bits_from(a / b);
    case operation::fma: return bits_from(std::fma(a, b, c));
    case operation::rcp: return bits_from(T{1} / a);
    default: return bits_from(std::sqrt(a));
  }
}

template <class T>
bool compared(comparison how, T a, T b) {
  switch (how) {
    case comparison::eq: return a == b;
    case comparison::ne: return a < b || a > b;
    case comparison::lt: return a < b;
    case comparison::le: return a <= b;
    case comparison::gt: return a > b;
    case comparison::ge: return a >= b;
    case comparison::num: return a == a && b == b;
    default: return a != a || b != b;
  }
}

bool set_predicate(const form& f, std::uint64_t a, std::uint64_t b) {
  if (f.to.kind == type_kind::f) {
    return f.to.bits == 32 ? compared(f.compare, float_at(a), float_at(b))
                           : compared(f.compare, double_at(a), double_at(b));
  }
  if (f.to.kind == type_kind::s) {
    return compared(f.compare, sign_extended(a, f.to.bits), sign_extended(b, f.to.bits));
  }
  return compared(f.compare, a & mask_of(f.to.bits), b & mask_of(f.to.bits));
}

std::uint64_t converted(const form& f, std::uint64_t a) {
  if (f.to.kind == type_kind::f && f.from.kind == type_kind::f) {
    return f.to.bits == 32 ? bits_from(static_cast<float>(double_at(a)))
                           : bits_from(static_cast<double>(float_at(a)));
  }
  const std::int64_t number = f.from.kind == type_kind::s
                                  ? sign_extended(a, f.from.bits)
                                  : static_cast<std::int64_t>(a & mask_of(f.from.bits));
  if (f.to.kind == type_kind::f) {
    return f.to.bits == 32 ? bits_from(static_cast<float>(number))
                           : bits_from(static_cast<double>(number));
  }
  return static_cast<std::uint64_t>(number);
}

std::uint64_t shifted(const form& f, std::uint64_t a, std::uint64_t by) {
  const auto amount = static_cast<std::uint32_t>(by);
  const bool all = amount >= f.to.bits;
  if (f.op == operation::shl) {
    return all ? 0 : a << amount;
  }
  if (f.to.kind == type_kind::s) {
    return static_cast<std::uint64_t>(sign_extended(a, f.to.bits) >>
                                      (all ? f.to.bits - 1U : amount));
  }
  return all ? 0 : (a & mask_of(f.to.bits)) >> amount;
}

// Operands that are not signed are below 2^63 or compared as unsigned numbers.
result<std::uint64_t> divided(const form& f, std::uint64_t a, std::uint64_t b) {
  const int bits = f.to.bits;
  a &= mask_of(bits);
  b &= mask_of(bits);
  if (b == 0) {
    return error(errc::invalid_argument,
                 "cannot divide: expected a divisor that is not 0, found 0");
  }
  if (f.to.kind != type_kind::s) {
    return f.op == operation::div ? a / b : a % b;
  }
  const std::int64_t x = sign_extended(a, bits), y = sign_extended(b, bits);
  if (y == -1) {  // the quotient of the smallest number wraps around
    return f.op == operation::div ? 0 - static_cast<std::uint64_t>(x) : 0U;
  }
  return static_cast<std::uint64_t>(f.op == operation::div ? x / y : x % y);
}

std::uint64_t wide_product(const form& f, std::uint64_t a, std::uint64_t b) {
  if (f.to.kind == type_kind::s) {
    return static_cast<std::uint64_t>(sign_extended(a, f.to.bits) *
                                      sign_extended(b, f.to.bits));
  }
  return (a & mask_of(f.to.bits)) * (b & mask_of(f.to.bits));
}

std::uint64_t extreme(const form& f, std::uint64_t a, std::uint64_t b) {
  const bool less = sign_extended(a, f.to.bits) < sign_extended(b, f.to.bits);
  return less == (f.op == operation::min) ? a : b;
}

std::uint64_t inserted(std::uint64_t field, std::uint64_t into, std::uint64_t at,
                       std::uint64_t length) {
  const std::uint64_t mask = mask_of(static_cast<int>(length & 0xFFU)) << (at & 0xFFU);
  return (into & ~mask) | ((field << (at & 0xFFU)) & mask);
}

}  // namespace

result<std::uint64_t> compute(const form& f, const std::array<std::uint64_t, 4>& a) {
  switch (f.op) {
    case operation::setp: return set_predicate(f, a[0], a[1]) ? 1U : 0U;
    case operation::selp: return (a[2] & 1U) != 0 ? a[0] : a[1];
    case operation::mov:
    case operation::cvta: return a[0];
    case operation::cvt: return converted(f, a[0]);
    default: break;
  }
  if (f.to.kind == type_kind::f) {
    return f.to.bits == 32
               ? float_result(f.op, float_at(a[0]), float_at(a[1]), float_at(a[2]))
               : float_result(f.op, double_at(a[0]), double_at(a[1]), double_at(a[2]));
  }
  switch (f.op) {
    case operation::add: return a[0] + a[1];
    case operation::sub: return a[0] - a[1];
    case operation::mul_lo: return a[0] * a[1];
    case operation::mul_wide: return wide_product(f, a[0], a[1]);
    case operation::mad_lo: return a[0] * a[1] + a[2];
    case operation::neg: return 0 - a[0];
    case operation::min:
    case operation::max: return extreme(f, a[0], a[1]);
    case operation::bit_and: return a[0] & a[1];
    case operation::bit_or: return a[0] | a[1];
    case operation::bit_xor: return a[0] ^ a[1];
    case operation::bit_not: return ~a[0];
    case operation::shl:
    case operation::shr: return shifted(f, a[0], a[1]);
    case operation::bfi: return inserted(a[0], a[1], a[2], a[3]);
    default: return divided(f, a[0], a[1]);
  }
}

}  // namespace weir::tessera::ptx
