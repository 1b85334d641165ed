// SPDX-License-Identifier: Apache-2.0
/// @file
/// The choice of kernels by the level of the processor.
#include "prose/kernels/select.hpp"

#include "kernel_choice.hpp"

namespace weir::models {

/// A table is asked for only if the processor can run its file.
result<const kernel_table<float>*> select_kernels(std::string_view name) {
  WEIR_TRY([[maybe_unused]] const kernel_level level, choose_instruction_set(name));
#if defined(__x86_64__)
  if (level == kernel_level::v4) {
    return &level_v4::table_float();
  }
  if (level == kernel_level::v3) {
    return &level_v3::table_float();
  }
#endif
  return &level_base::table_float();
}

/// Only checks use them, so speed matters less.
const kernel_table<double>& double_kernels() {
#if defined(__x86_64__)
  if (processor_level() >= 3) {
    return level_v3::table_double();
  }
#endif
  return level_base::table_double();
}

}  // namespace weir::models
