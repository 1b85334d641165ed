// SPDX-License-Identifier: Apache-2.0
/// @file
/// Code for GPUs that `weir module build` packs: PTX, cubins, and CUDA sources, which
/// nvcc compiles to PTX.
#pragma once

#include <string>

#include "module/description.hpp"
#include "weir/base/bytes.hpp"

namespace weir::tools {

/// Reads an argument [ARCH=]FILE, such as "sm_90=saxpy.cubin", "saxpy.ptx" or
/// "compute_80=saxpy.cu". The kind follows from the name of the file. A cubin needs an
/// architecture; for PTX it is in the file, and a source is compiled for compute_75.
/// @error{invalid_argument, another ending, or a cubin without an architecture}
[[nodiscard]] result<code_file> read_gpu_argument(const std::string& text);

/// Returns the content of a file of code, and sets its architecture if it has none. A
/// source that ends in ".cu" is compiled by nvcc, which is found on PATH, then below
/// CUDA_HOME: without contraction of products and with rounding as IEEE 754 says.
/// @error{not_found, io, the file cannot be read, there is no nvcc, or no folder for its
/// output}
/// @error{invalid_argument, nvcc refuses the source; the message has its output}
[[nodiscard]] result<byte_vector> content_of(code_file& code);

}  // namespace weir::tools
