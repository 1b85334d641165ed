// SPDX-License-Identifier: Apache-2.0
/// @file
/// The kernels for processors with AVX-512. Checks in double precision use those of
/// `level_v3`.
#define WEIR_KERNEL_SPACE level_v4
#include "prose/kernels/make_table.hpp"

namespace weir::models::level_v4 {

const kernel_table<float>& table_float() {
  static const kernel_table<float> table = make_table<float>("x86-64-v4");
  return table;
}

}  // namespace weir::models::level_v4
