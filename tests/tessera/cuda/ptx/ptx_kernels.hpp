// SPDX-License-Identifier: Apache-2.0
/// @file
/// The PTX of the kernels, read for the interpreter: that of the repository, or that
/// which an nvcc of another version has made for this build.
#pragma once

#include <string>
#include <vector>

#include "ptx/module.hpp"

namespace weir::tessera::ptx {

/// Returns the texts, one for each source.
[[nodiscard]] std::vector<std::string> repository_texts();
/// Returns true if the texts are those of the repository.
[[nodiscard]] bool of_repository();
/// Returns the text of the kernels of the conformance suite.
[[nodiscard]] std::string conformance_text();
/// Returns the kernels of `repository_texts`. Throws if one is not understood.
[[nodiscard]] std::vector<kernel> repository_kernels();

}  // namespace weir::tessera::ptx
