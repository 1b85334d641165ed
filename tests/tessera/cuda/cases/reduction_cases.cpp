// SPDX-License-Identifier: Apache-2.0
/// @file
/// Expected results of the reductions over ranks, and all cases.
///
/// The results are those of the oracle of collectives, which shares no code with the
/// kernels: trees pair neighbours of a list, and exact sums are integers of 2304 bits
/// that are rounded once.
#include <algorithm>

#include "cases/case_support.hpp"
#include "runtime/collective/oracle.hpp"

namespace weir::tessera::test {
namespace {

namespace oracle = collective::test;
using collective::reduction;
using collective::reduction_op;

/// A reduction and its kernel.
struct reduction_case {
  dtype type = dtype::fp32;
  reduction_op op = reduction_op::sum;
  bool exact = false;  ///< weir_sum_exact, which is level 2
  bool wide = false;   ///< nodes of fp64 for fp32

  [[nodiscard]] std::string name() const {
    return fmt::format(
        "{} {} of type {}{}", exact ? "weir_sum_exact" : "weir_reduce_tree",
        collective::name_of(op), static_cast<int>(type), wide ? " with wide nodes" : "");
  }
  /// Returns the number of the type that the kernel takes.
  [[nodiscard]] std::int32_t number() const {
    return wide ? 0 : static_cast<std::int32_t>(type);
  }
};

/// Returns inputs of all ranks: any codes in every third element, else numbers of similar
/// or of very different sizes, or zeros, infinities and NaN.
std::vector<oracle::bytes> inputs_of(const reduction_case& c, std::size_t ranks,
                                     std::size_t count) {
  constexpr std::array flavours{oracle::flavour::codes, oracle::flavour::normal,
                                oracle::flavour::wide, oracle::flavour::special};
  std::mt19937_64 dice(17 + ranks);
  std::vector<oracle::bytes> inputs;
  const auto size = static_cast<std::size_t>(info_of(c.type).size);
  for (std::size_t r = 0; r < ranks; ++r) {
    oracle::bytes of_rank;
    // The flavour is that of the element, so that all ranks have the same.
    for (std::size_t i = 0; i < count; ++i) {
      const auto one =
          oracle::random_elements(dice, c.type, 1, flavours[i % flavours.size()]);
      of_rank.insert(of_rank.end(), one.begin(), one.end());
    }
    // One element is -0, or zero, on every rank.
    std::fill_n(of_rank.begin(), size, std::byte{0});
    if (c.type <= dtype::fp64) {
      of_rank[size - 1] = std::byte{0x80};
    }
    inputs.push_back(std::move(of_rank));
  }
  return inputs;
}

std::string run_reduction(const kernel_runner& run, const reduction_case& c,
                          std::size_t ranks, std::size_t count) {
  const auto inputs = inputs_of(c, ranks, count);
  std::vector<std::uint64_t> addresses;
  for (const oracle::bytes& input : inputs) {
    addresses.push_back(reinterpret_cast<std::uintptr_t>(input.data()));
  }
  reduction operation{c.type, c.op, c.exact ? 2 : 1};
  operation.wide = c.wide;
  const oracle::bytes expected = oracle::reduced(operation, inputs);
  oracle::bytes out(expected.size());
  launch_maker m(c.exact ? "weir_sum_exact" : "weir_reduce_tree", {2, 1, 1}, {3, 1, 1});
  m.memory(addresses).number(static_cast<std::int32_t>(ranks)).memory(out);
  m.number(static_cast<std::int64_t>(count)).number(c.number());
  m.number(static_cast<std::int32_t>(c.op));
  for (const oracle::bytes& input : inputs) {
    m.reachable(input);
  }
  const std::string fault = run(m.made());
  if (!fault.empty()) {
    return fault;
  }
  const auto size = static_cast<std::size_t>(info_of(c.type).size);
  const auto differs = std::mismatch(out.begin(), out.end(), expected.begin());
  return differs.first == out.end()
             ? ""
             : fmt::format(
                   "element {} of {} ranks: expected other bits, first in byte {}",
                   static_cast<std::size_t>(differs.first - out.begin()) / size, ranks,
                   differs.first - out.begin());
}

/// Returns every reduction that a kernel knows.
std::vector<reduction_case> all_reductions() {
  std::vector<reduction_case> out;
  for (const dtype type : oracle::all_types) {
    const bool complex = type == dtype::complex64 || type == dtype::complex128;
    for (const reduction_op op : oracle::all_ops) {
      const bool adds = op == reduction_op::sum || op == reduction_op::average;
      // Complex numbers are added as twice as many real ones.
      if (!collective::check_reduction({type, op, 1}) ||
          (complex && op != reduction_op::product)) {
        continue;
      }
      out.push_back({type, op});
      if (type == dtype::fp32) {
        out.push_back({type, op, false, true});
      }
      if (adds && type <= dtype::fp64) {
        out.push_back({type, op, true});
      }
    }
  }
  return out;
}

}  // namespace

void add_reduction_cases(std::vector<kernel_case>& cases, bool large) {
  for (const reduction_case& c : all_reductions()) {
    cases.push_back({c.name(), false, [=](const kernel_runner& run) {
                       std::string found = run_reduction(run, c, large ? 37 : 5, 23);
                       return found.empty() ? run_reduction(run, c, 2, large ? 499 : 40)
                                            : found;
                     }});
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
