// SPDX-License-Identifier: Apache-2.0
/// @file
/// The choice of the instruction set for which the kernels were compiled.
#pragma once

#include <string_view>

#include "prose/kernels/table.hpp"
#include "weir/base/error.hpp"

namespace weir::models {

/// Returns the kernels of the instruction set with this name, or of the best one that
/// this processor has if the name is "auto".
/// @error{invalid_argument, no such name, or the processor does not have it}
[[nodiscard]] result<const kernel_table<float>*> select_kernels(std::string_view name);

/// Returns the fastest kernels in double precision, for checks.
[[nodiscard]] const kernel_table<double>& double_kernels();

}  // namespace weir::models
