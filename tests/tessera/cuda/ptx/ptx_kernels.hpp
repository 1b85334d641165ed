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
/// Returns the text of the kernels of the conformance suite, of the newest version.
[[nodiscard]] std::string conformance_text();
/// Returns the kernels of `repository_texts`. Throws if one is not understood.
[[nodiscard]] std::vector<kernel> repository_kernels();

}  // namespace weir::tessera::ptx
