// SPDX-License-Identifier: Apache-2.0
/// @file
/// The choice of kernels by the features of the processor.
#include "prose/kernels/select.hpp"

#include <fmt/core.h>

#include <vector>

#include "processor_level.hpp"

namespace weir::models {

namespace {

/// Returns the tables that this processor can run, the best one last.
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
  const auto tables = usable_tables();
  if (name == "auto") {
    return tables.back();
  }
  std::string known = "auto";
  for (const auto* table : tables) {
    if (name == table->name) {
      return table;
    }
    known += ", ";
    known += table->name;
  }
  return error(
      errc::invalid_argument,
      fmt::format("choice of kernels: expected one of {}, found {}", known, name));
}

const kernel_table<double>& double_kernels() {
#if defined(__x86_64__)
  if (usable_tables().size() > 1) {
    return level_v3::table_double();
  }
#endif
  return level_base::table_double();
}

}  // namespace weir::models
