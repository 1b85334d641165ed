// SPDX-License-Identifier: Apache-2.0
/// @file
/// The choice of the kernels of the layers by the level of the processor.
#include "layers/kernels/select.hpp"

#include <vector>

#include "kernel_choice.hpp"
#include "processor_level.hpp"

namespace weir::models::layers {

/// Tables go from the slowest to the fastest one.
result<const layer_kernels*> select_layer_kernels(std::string_view name) {
  std::vector<const layer_kernels*> tables = {&level_base::layer_table()};
#if defined(__x86_64__)
  const int level = processor_level();
  if (level >= 3) {
    tables.push_back(&level_v3::layer_table());
  }
  if (level >= 4) {
    tables.push_back(&level_v4::layer_table());
  }
#endif
  // Without a name the last table is taken.
  return choose_table<layer_kernels>("choice of kernels of the layers", tables, name);
}

}  // namespace weir::models::layers
