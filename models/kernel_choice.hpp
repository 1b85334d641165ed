// SPDX-License-Identifier: Apache-2.0
/// @file
/// The choice of an instruction set by its name.
#pragma once

#include <cstddef>
#include <string_view>

#include "processor_level.hpp"
#include "weir/base/error.hpp"

namespace weir::models {

/// Place of an instruction set in `instruction_sets()`.
enum class kernel_level : std::size_t { base, v3, v4 };

/// Returns the instruction set of a name, or the best one of the processor for "auto".
/// @param level  Level of the processor, see `processor_level`.
/// @error{invalid_argument, no instruction set has the name, or the processor does not
/// have it}
[[nodiscard]] result<kernel_level> choose_instruction_set(std::string_view name,
                                                          int level = processor_level());

}  // namespace weir::models
