// SPDX-License-Identifier: Apache-2.0
/// @file
/// The kernels for processors with AVX2 and FMA.
#define WEIR_KERNEL_SPACE level_v3
#include "prose/kernels/make_table.hpp"

namespace weir::models::level_v3 {

const kernel_table<float>& table_float() {
  static const kernel_table<float> table = make_table<float>("x86-64-v3");
  return table;
}

const kernel_table<double>& table_double() {
  static const kernel_table<double> table = make_table<double>("x86-64-v3");
  return table;
}

}  // namespace weir::models::level_v3
