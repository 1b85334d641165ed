// SPDX-License-Identifier: Apache-2.0
/// @file
/// The choice of the instruction set for which the kernels of the layers were compiled.
#pragma once

#include <string_view>

#include "layers/kernels/table.hpp"
#include "weir/base/error.hpp"

namespace weir::models::layers {

/// Returns the kernels of the instruction set with this name, or of the best one that
/// this processor has if the name is "auto".
/// @error{invalid_argument, no such name, or the processor does not have it}
[[nodiscard]] result<const layer_kernels*> select_layer_kernels(std::string_view name);

}  // namespace weir::models::layers
