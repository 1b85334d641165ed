// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reductions of integers and booleans, and of fp8, fp16 and bf16. Nodes of the narrow
/// floats are fp32, or fp64 where sums must be exact.
///
/// The loops themselves are in tile_loops.hpp; here they are instantiated for each type
/// and operation.
#include "collective/kernels/tile_loops.hpp"

namespace weir::collective {
namespace {

template <class T>
const reduction_kernels* of_integer(reduction_op op, instructions set) noexcept {
  switch (op) {
    case reduction_op::sum:
    case reduction_op::average: return tile_tables<T, T, add_op>::of(set);
    case reduction_op::product: return tile_tables<T, T, multiply_op>::of(set);
    case reduction_op::max: return tile_tables<T, T, max_op>::of(set);
    case reduction_op::min: return tile_tables<T, T, min_op>::of(set);
  }
  return nullptr;
}

/// Returns the kernels of booleans: sum and maximum are "or", product and minimum are
/// "and".
const reduction_kernels* of_bool(reduction_op op, instructions set) noexcept {
  const bool any = op == reduction_op::sum || op == reduction_op::max;
  return any ? tile_tables<bool_byte, std::uint8_t, or_op>::of(set)
             : tile_tables<bool_byte, std::uint8_t, and_op>::of(set);
}

template <class S>
const reduction_kernels* of_narrow(const reduction& what, instructions set) noexcept {
  switch (what.op) {
    case reduction_op::sum:
    case reduction_op::average:
      return what.level == 2 ? tile_tables<S, double, add_op>::of(set)
                             : tile_tables<S, float, add_op>::of(set);
    case reduction_op::product: return tile_tables<S, float, multiply_op>::of(set);
    case reduction_op::max: return tile_tables<S, float, max_op>::of(set);
    case reduction_op::min: return tile_tables<S, float, min_op>::of(set);
  }
  return nullptr;
}

}  // namespace

const reduction_kernels* integer_kernels(const reduction& what,
                                         instructions set) noexcept {
  switch (what.type) {
    case dtype::int8: return of_integer<std::int8_t>(what.op, set);
    case dtype::int16: return of_integer<std::int16_t>(what.op, set);
    case dtype::int32: return of_integer<std::int32_t>(what.op, set);
    case dtype::int64: return of_integer<std::int64_t>(what.op, set);
    case dtype::boolean: return of_bool(what.op, set);
    default: return nullptr;
  }
}

const reduction_kernels* narrow_kernels(const reduction& what,
                                        instructions set) noexcept {
  switch (what.type) {
    case dtype::fp8_e4m3: return of_narrow<e4m3_bits>(what, set);
    case dtype::fp8_e5m2: return of_narrow<e5m2_bits>(what, set);
    case dtype::fp16: return of_narrow<half_bits>(what, set);
    case dtype::bf16: return of_narrow<bfloat_bits>(what, set);
    default: return nullptr;
  }
}

}  // namespace weir::collective
