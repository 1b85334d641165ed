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
const reduction_kernels* integer_table(reduction_op op, instructions set) noexcept {
  switch (op) {
    case reduction_op::sum:
    case reduction_op::average: return tile_tables<T, T, add_op>::table(set);
    case reduction_op::product: return tile_tables<T, T, multiply_op>::table(set);
    case reduction_op::max: return tile_tables<T, T, max_op>::table(set);
    case reduction_op::min: return tile_tables<T, T, min_op>::table(set);
  }
  return nullptr;
}

/// Returns the kernels of booleans: sum and maximum are "or", product and minimum are
/// "and".
const reduction_kernels* boolean_table(reduction_op op, instructions set) noexcept {
  const bool any = op == reduction_op::sum || op == reduction_op::max;
  return any ? tile_tables<bool_byte, std::uint8_t, or_op>::table(set)
             : tile_tables<bool_byte, std::uint8_t, and_op>::table(set);
}

template <class S>
const reduction_kernels* narrow_table(const reduction& operation,
                                      instructions set) noexcept {
  switch (operation.op) {
    case reduction_op::sum:
    case reduction_op::average:
      return operation.level == 2 ? tile_tables<S, double, add_op>::table(set)
                                  : tile_tables<S, float, add_op>::table(set);
    case reduction_op::product: return tile_tables<S, float, multiply_op>::table(set);
    case reduction_op::max: return tile_tables<S, float, max_op>::table(set);
    case reduction_op::min: return tile_tables<S, float, min_op>::table(set);
  }
  return nullptr;
}

}  // namespace

const reduction_kernels* integer_kernels(const reduction& operation,
                                         instructions set) noexcept {
  switch (operation.type) {
    case dtype::int8: return integer_table<std::int8_t>(operation.op, set);
    case dtype::int16: return integer_table<std::int16_t>(operation.op, set);
    case dtype::int32: return integer_table<std::int32_t>(operation.op, set);
    case dtype::int64: return integer_table<std::int64_t>(operation.op, set);
    case dtype::boolean: return boolean_table(operation.op, set);
    default: return nullptr;
  }
}

const reduction_kernels* narrow_kernels(const reduction& operation,
                                        instructions set) noexcept {
  switch (operation.type) {
    case dtype::fp8_e4m3: return narrow_table<e4m3_bits>(operation, set);
    case dtype::fp8_e5m2: return narrow_table<e5m2_bits>(operation, set);
    case dtype::fp16: return narrow_table<half_bits>(operation, set);
    case dtype::bf16: return narrow_table<bfloat_bits>(operation, set);
    default: return nullptr;
  }
}

}  // namespace weir::collective
