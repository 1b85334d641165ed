// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reductions of fp8, fp16 and bf16: nodes are fp32, or fp64 where sums are to be exact.
#include "collective/tile_loops.hpp"

namespace weir::runtime {
namespace {

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

}  // namespace weir::runtime
