// SPDX-License-Identifier: Apache-2.0
/// @file
/// Expected results of the reductions over ranks, and all cases.
///
/// Exact sums are computed in binary128, then rounded to fp64 and to the type of the
/// elements. binary128 holds the sums of the fp16 inputs exactly, and those of the fp32
/// inputs that do not overflow. Exponents of bf16 inputs may be too far apart for it.
#include <algorithm>

#include "cases/case_support.hpp"

namespace weir::tessera::test {
namespace {

__extension__ using quad = __float128;

// Returns the value of an element; one of 16 bits is a code of fp16 (type 1) or bf16.
template <class T>
double value_of(T x, std::int32_t type) {
  if constexpr (sizeof(T) != 2) {
    return static_cast<double>(x);
  } else {
    const int fraction_bits = type == 1 ? 10 : 7;
    const int bias = type == 1 ? 15 : 127;
    const int exponent_mask = type == 1 ? 31 : 255;
    const int exponent = x >> fraction_bits & exponent_mask;
    const int fraction = x & ((1 << fraction_bits) - 1);
    double value = exponent == 0 ? fraction : fraction + (1 << fraction_bits);
    value = __builtin_ldexp(value, std::max(exponent, 1) - bias - fraction_bits);
    if (exponent == exponent_mask) {
      value = fraction != 0 ? __builtin_nan("") : __builtin_inf();
    }
    return x >> 15 != 0 ? -value : value;
  }
}

// Returns the code of 16 bits that is nearest to a number, by bisection.
std::uint16_t nearest_code(double x, std::int32_t type) {
  const std::uint16_t infinity = type == 1 ? 0x7C00U : 0x7F80U;
  const std::uint16_t sign = __builtin_signbit(x) ? 0x8000U : 0U;
  const double size = x < 0 ? -x : x;
  if (x != x) {
    return type == 1 ? 0x7E00U : 0x7FC0U;
  }
  // Codes grow with their values, and infinity counts as the next number of the format.
  std::uint16_t low = 0, high = infinity;
  while (high - low > 1) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (value_of(middle, type) <= size ? low : high) = middle;
  }
  const double below = value_of(low, type);
  const double above =
      high == infinity ? 2 * below - value_of(static_cast<std::uint16_t>(low - 1), type)
                       : value_of(high, type);
  const double half = below + (above - below) / 2;
  const bool up = size > half || (size == half && (low & 1) != 0);
  return static_cast<std::uint16_t>((up ? high : low) | sign);
}

template <class T>
T element_from(double x, std::int32_t type) {
  if constexpr (sizeof(T) == 2) {
    return nearest_code(x, type);
  } else if constexpr (sizeof(T) == 4) {
    return plain(static_cast<float>(x));
  } else {
    return x == x ? x : __builtin_bit_cast(double, 0x7FF8000000000000U);
  }
}

// One node of the tree, in fp64 for fp64 and in fp32 for all others.
double tree_node(double a, double b, std::int32_t type, std::int32_t operation) {
  if (operation >= 2) {
    if (a != a || b != b) {
      return __builtin_nan("");
    }
    const bool a_less =
        a < b || (a == b && __builtin_signbit(a) && !__builtin_signbit(b));
    return a_less == (operation == 3) ? a : b;
  }
  if (type == 3) {
    return operation == 0 ? a + b : a * b;
  }
  const auto left = static_cast<float>(a);
  const auto right = static_cast<float>(b);
  return static_cast<double>(operation == 0 ? left + right : left * right);
}

// Pairs neighbours again and again; an odd tail is carried up.
double tree_of(std::vector<double> nodes, std::int32_t type, std::int32_t operation) {
  while (nodes.size() > 1) {
    std::vector<double> next;
    for (std::size_t i = 0; i < nodes.size(); i += 2) {
      next.push_back(i + 1 < nodes.size()
                         ? tree_node(nodes[i], nodes[i + 1], type, operation)
                         : nodes[i]);
    }
    nodes = std::move(next);
  }
  return nodes[0];
}

double exact_of(const std::vector<double>& values) {
  quad sum = static_cast<quad>(values[0]);
  for (std::size_t i = 1; i < values.size(); ++i) {
    sum += static_cast<quad>(values[i]);
  }
  return static_cast<double>(sum);
}

template <class T>
std::vector<std::vector<T>> inputs_of(std::size_t ranks, std::size_t count,
                                      std::int32_t type, bool exact) {
  std::vector<std::vector<T>> out(ranks);
  std::mt19937 random(17);
  for (std::vector<T>& of_rank : out) {
    for (std::size_t i = 0; i < count; ++i) {
      if constexpr (sizeof(T) == 2) {
        auto code = static_cast<std::uint16_t>(random());
        // Every fourth element is subnormal or zero on all ranks.
        code = i % 4 == 0
                   ? static_cast<std::uint16_t>(code & (type == 1 ? 0x83FFU : 0x807FU))
                   : code;
        of_rank.push_back(code);
      } else {
        auto bits = static_cast<std::uint32_t>(random());
        const std::uint32_t first_exponent = exact ? 100 : 64;
        // Exponents of one sum are less than 60 apart, so that binary128 holds it.
        bits = (bits & 0x807FFFFFU) | (first_exponent + bits % 60) << 23;
        bits = i % 4 == 0 ? bits & 0x807FFFFFU : bits;
        of_rank.push_back(static_cast<T>(__builtin_bit_cast(float, bits)));
      }
    }
  }
  if (sizeof(T) != 2 && count > 8 && ranks > 1) {
    out[0][1] = static_cast<T>(__builtin_nan(""));
    out[0][2] = static_cast<T>(__builtin_inf());
    out[1][3] = static_cast<T>(-__builtin_inf());
    out[0][3] = static_cast<T>(__builtin_inf());
    out[0][5] = static_cast<T>(3.4e38);
    out[1][5] = static_cast<T>(3.4e38);
    for (std::vector<T>& of_rank : out) {
      of_rank[6] = static_cast<T>(-0.0);
    }
  }
  return out;
}

/// Operation -1 is the exact sum.
template <class T>
std::string reduction_case(const kernel_runner& run, std::size_t ranks, std::size_t count,
                           std::int32_t type, std::int32_t operation) {
  const auto inputs = inputs_of<T>(ranks, count, type, operation < 0);
  std::vector<std::uint64_t> addresses;
  for (const std::vector<T>& input : inputs) {
    addresses.push_back(reinterpret_cast<std::uintptr_t>(input.data()));
  }
  std::vector<T> out(count);
  std::vector<T> expected;
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<double> values;
    for (const std::vector<T>& input : inputs) {
      values.push_back(value_of(input[i], type));
    }
    const double value =
        operation < 0 ? exact_of(values) : tree_of(values, type, operation);
    expected.push_back(element_from<T>(value, type));
  }
  launch_maker m(operation < 0 ? "weir_sum_exact" : "weir_reduce_tree", {2, 1, 1},
                 {3, 1, 1});
  m.memory(addresses).number(static_cast<std::int32_t>(ranks)).memory(out);
  m.number(static_cast<std::int64_t>(count)).number(type);
  for (const std::vector<T>& input : inputs) {
    m.reachable(input);
  }
  if (operation >= 0) {
    m.number(operation);
  }
  const std::string fault = run(m.made());
  return fault.empty() ? difference(out, expected) : fault;
}

std::string any_reduction(const kernel_runner& run, std::size_t ranks, std::size_t count,
                          std::int32_t type, std::int32_t operation) {
  switch (type) {
    case 0: return reduction_case<float>(run, ranks, count, type, operation);
    case 3: return reduction_case<double>(run, ranks, count, type, operation);
    default: return reduction_case<std::uint16_t>(run, ranks, count, type, operation);
  }
}

}  // namespace

void add_reduction_cases(std::vector<kernel_case>& cases, bool large) {
  for (std::int32_t type = 0; type < 4; ++type) {
    for (std::int32_t operation = type == 3 ? 0 : -1; operation < 4; ++operation) {
      cases.push_back({fmt::format("{} {} of type {}",
                                   operation < 0 ? "weir_sum_exact" : "weir_reduce_tree",
                                   operation, type),
                       false, [=](const kernel_runner& run) {
                         std::string found =
                             any_reduction(run, large ? 37 : 5, 23, type, operation);
                         return found.empty() ? any_reduction(run, 2, large ? 999 : 40,
                                                              type, operation)
                                              : found;
                       }});
    }
  }
}

std::vector<kernel_case> kernel_cases(bool large) {
  std::vector<kernel_case> out;
  add_vector_cases(out, large);
  add_row_cases(out, large);
  add_memory_cases(out, large);
  add_reduction_cases(out, large);
  return out;
}

}  // namespace weir::tessera::test
