// SPDX-License-Identifier: Apache-2.0
/// @file
/// The folder of the sources, for tests that read files of the project.
#pragma once

#include <string>

namespace weir::test {

/// Returns the root folder of the sources as an absolute path. It is a function of one
/// small file, so that the objects of all other tests do not depend on the path, and
/// checkouts in several folders share the compiler's cache.
/// @threads{safe to call concurrently}
[[nodiscard]] std::string source_folder();
/// Returns the folder of the PTX of the kernels for GPUs that this build uses: that of
/// the repository, or of an nvcc that the repository does not know.
[[nodiscard]] std::string kernel_ptx_folder();
/// Returns the folder of the PTX of the conformance suite's kernels, in the same way.
[[nodiscard]] std::string conformance_ptx_folder();

}  // namespace weir::test
