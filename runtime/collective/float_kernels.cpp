// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reductions of fp32, fp64 and complex numbers that round at every node of the tree.
/// Sums of few ranks are held in registers; others go through tiles.
///
/// Both ways add in the order of the canonical tree, so they give the same bits; the
/// faster one is used.
#pragma GCC diagnostic ignored "-Wpsabi"
#include "collective/kernels/tile_loops.hpp"
#include "collective/kernels/vector_sum.hpp"

namespace weir::collective {
namespace {

template <class T, std::size_t Bytes, int Ranks>
std::size_t sum_portable(const std::byte* const* inputs, std::byte* const* outputs,
                         std::size_t output_count, std::size_t count,
                         std::uint32_t divisor) {
  return vector_sum<T, Bytes, Ranks>::run(inputs, outputs, output_count, count, divisor);
}
template <class T, std::size_t Bytes, int Ranks>
WEIR_AVX2 std::size_t sum_avx2(const std::byte* const* inputs, std::byte* const* outputs,
                               std::size_t output_count, std::size_t count,
                               std::uint32_t divisor) {
  return vector_sum<T, Bytes, Ranks>::run(inputs, outputs, output_count, count, divisor);
}

using sum_function = std::size_t (*)(const std::byte* const*, std::byte* const*,
                                     std::size_t, std::size_t, std::uint32_t);
/// Largest numbers of ranks that are added in registers, for which loops are compiled.
/// The registers of the instruction set limit them.
constexpr std::size_t max_ranks_avx2 = 8;
constexpr std::size_t max_ranks_portable = 4;

/// Return the loops for 1, 2, ... ranks.
template <class T, std::size_t... Less>
constexpr std::array<sum_function, sizeof...(Less)> portable_sums(
    std::index_sequence<Less...> /*0, 1, 2, ...*/) {
  return {sum_portable<T, 16, static_cast<int>(Less) + 1>...};
}
template <class T, std::size_t... Less>
constexpr std::array<sum_function, sizeof...(Less)> avx2_sums(
    std::index_sequence<Less...> /*0, 1, 2, ...*/) {
  return {sum_avx2<T, 32, static_cast<int>(Less) + 1>...};
}

/// Runs the loop for this number of ranks. Returns 0 if there is none, and all elements
/// then go through tiles.
template <class T, instructions Set>
std::size_t sum_in_registers(const std::byte* const* inputs, std::size_t ranks,
                             std::byte* const* outputs, std::size_t output_count,
                             std::size_t count, std::uint32_t divisor) {
  static constexpr auto sums = [] {
    if constexpr (Set == instructions::avx2) {
      return avx2_sums<T>(std::make_index_sequence<max_ranks_avx2>{});
    } else {
      return portable_sums<T>(std::make_index_sequence<max_ranks_portable>{});
    }
  }();
  if (ranks > sums.size()) {
    return 0;
  }
  return sums[ranks - 1](inputs, outputs, output_count, count, divisor);
}

/// Adds the sum in registers to a table of tile loops.
template <class T, instructions Set>
constexpr reduction_kernels with_registers(reduction_kernels tiles) {
  tiles.whole = sum_in_registers<T, Set>;
  return tiles;
}

template <class T>
const reduction_kernels* sums_of(instructions set) noexcept {
  using tables = tile_tables<T, T, add_op>;
  static constexpr reduction_kernels portable =
      with_registers<T, instructions::portable>(tables::portable);
  static constexpr reduction_kernels avx2 =
      with_registers<T, instructions::avx2>(tables::avx2);
  return set == instructions::avx2 ? &avx2 : &portable;
}

template <class T>
const reduction_kernels* float_table(reduction_op op, instructions set) noexcept {
  switch (op) {
    case reduction_op::sum:
    case reduction_op::average: return sums_of<T>(set);
    case reduction_op::product: return tile_tables<T, T, multiply_op>::table(set);
    case reduction_op::max: return tile_tables<T, T, max_op>::table(set);
    case reduction_op::min: return tile_tables<T, T, min_op>::table(set);
  }
  return nullptr;
}

/// Returns the kernels of fp32 whose nodes are fp64.
const reduction_kernels* wide_table(reduction_op op, instructions set) noexcept {
  return op == reduction_op::product ? tile_tables<float, double, multiply_op>::table(set)
                                     : tile_tables<float, double, add_op>::table(set);
}

}  // namespace

const reduction_kernels* float_kernels(const reduction& operation,
                                       instructions set) noexcept {
  const bool adds =
      operation.op == reduction_op::sum || operation.op == reduction_op::average;
  const bool rounds = adds || operation.op == reduction_op::product;
  switch (operation.type) {
    case dtype::fp32:
      return operation.wide && rounds ? wide_table(operation.op, set)
                                      : float_table<float>(operation.op, set);
    case dtype::fp64: return float_table<double>(operation.op, set);
    // Complex sums go by components, as twice as many real numbers.
    case dtype::complex64:
      if (adds) {
        return operation.wide ? wide_table(operation.op, set) : sums_of<float>(set);
      }
      return tile_tables<complex_pair<float>, complex_pair<float>, multiply_op>::table(
          set);
    case dtype::complex128:
      return adds ? sums_of<double>(set)
                  : tile_tables<complex_pair<double>, complex_pair<double>,
                                multiply_op>::table(set);
    default: return nullptr;
  }
}

}  // namespace weir::collective
