// SPDX-License-Identifier: Apache-2.0
/// @file
/// The kernels for any processor: compiled for the baseline of the architecture.
#define WEIR_KERNEL_SPACE level_base
#include "prose/kernels/make_table.hpp"

namespace weir::models::level_base {

const kernel_table<float>& table_float() {
  static const kernel_table<float> table = make_table<float>("x86-64");
  return table;
}

const kernel_table<double>& table_double() {
  static const kernel_table<double> table = make_table<double>("x86-64");
  return table;
}

}  // namespace weir::models::level_base
