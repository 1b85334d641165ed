// SPDX-License-Identifier: Apache-2.0
/// @file
/// Choice of the kernels' instruction set.
#pragma once

#include <string_view>

#include "prose/kernels/table.hpp"
#include "weir/base/error.hpp"

namespace weir::models {

/// Kernels of the best instruction set of this processor ("auto"), or of the one named.
/// @error{invalid_argument, no such name, or the processor does not have it}
[[nodiscard]] result<const kernel_table<float>*> select_kernels(std::string_view name);

/// The fastest kernels in double precision, for checks.
[[nodiscard]] const kernel_table<double>& double_kernels();

}  // namespace weir::models
