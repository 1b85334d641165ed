// SPDX-License-Identifier: Apache-2.0
/// @file
/// The PTX of the kernels in the repository, read for the interpreter.
#pragma once

#include <string>
#include <vector>

#include "ptx/module.hpp"

namespace weir::tessera::ptx {

/// Returns the texts of the newest version in the repository, one for each source.
[[nodiscard]] std::vector<std::string> repository_texts();
/// Returns the kernels of these texts. Throws if one is not understood.
[[nodiscard]] std::vector<kernel> repository_kernels();

}  // namespace weir::tessera::ptx
