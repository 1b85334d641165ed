// SPDX-License-Identifier: Apache-2.0
/// @file
/// The choice of kernels by the features of the processor.
#include "prose/kernels/select.hpp"

#include <vector>

#include "kernel_choice.hpp"
#include "processor_level.hpp"

namespace weir::models {

namespace {

/// Returns the tables that this processor can run, the best one last. The baseline
/// always is among them.
std::vector<const kernel_table<float>*> usable_tables() {
  std::vector<const kernel_table<float>*> tables = {&level_base::table_float()};
#if defined(__x86_64__)
  const int level = processor_level();
  if (level >= 3) {
    tables.push_back(&level_v3::table_float());
  }
  if (level >= 4) {
    tables.push_back(&level_v4::table_float());
  }
#endif
  return tables;
}

}  // namespace

result<const kernel_table<float>*> select_kernels(std::string_view name) {
  // The names are those of the tables.
  return choose_table<kernel_table<float>>("choice of kernels", usable_tables(), name);
}

/// Only checks use them, so speed matters less.
const kernel_table<double>& double_kernels() {
#if defined(__x86_64__)
  if (usable_tables().size() > 1) {
    return level_v3::table_double();
  }
#endif
  return level_base::table_double();
}

}  // namespace weir::models
