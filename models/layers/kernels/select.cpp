// SPDX-License-Identifier: Apache-2.0
/// @file
/// The choice of the kernels of the layers by the level of the processor.
#include "layers/kernels/select.hpp"

#include "kernel_choice.hpp"

namespace weir::models::layers {

/// A table is asked for only if the processor can run its file.
result<const layer_kernels*> select_layer_kernels(std::string_view name) {
  WEIR_TRY([[maybe_unused]] const kernel_level level, choose_instruction_set(name));
#if defined(__x86_64__)
  if (level == kernel_level::v4) {
    return &level_v4::layer_table();
  }
  if (level == kernel_level::v3) {
    return &level_v3::layer_table();
  }
#endif
  return &level_base::layer_table();
}

}  // namespace weir::models::layers
