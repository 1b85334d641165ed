// SPDX-License-Identifier: Apache-2.0
/// @file
/// The description of a module that `weir module build` reads: kernels, files of code,
/// collective plans and a policy, in TOML.
/// @threads{all functions: safe to call concurrently}
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/tessera/module/fatbin.hpp"

namespace weir::tools {

/// A code section of a module, and the file that holds its content.
struct code_file {
  tessera::section_kind kind = tessera::section_kind::cpu_so;
  std::string arch;
  std::string path;  ///< empty if the code is functions that a program registers
};

/// A kernel and the machines that it can run on.
struct described_kernel {
  tessera::kernel_record record;
  /// Values of `code_file::arch`, such as "x86-64-v3"; empty means all machines.
  std::vector<std::string> targets;
};

/// The content of a description.
struct module_description {
  std::vector<std::string> sources;  ///< files whose content gives the source hash
  std::string explain;               ///< JSON that `weir module explain` shows
  std::vector<described_kernel> kernels;
  std::vector<code_file> code;
  std::vector<tessera::plan_record> plans;
  bool has_policy = false;
  tessera::policy_record policy;
};

/// Reads a description.
/// @param name    Name of the file for messages.
/// @param folder  Folder from which relative paths begin.
/// @error{invalid_argument, the text is not TOML, or a value has the wrong kind}
/// @error{unknown_key, a key or a word is unknown; the message suggests the nearest one}
[[nodiscard]] result<module_description> read_description(std::string_view text,
                                                          const std::string& name,
                                                          const std::string& folder);

/// Reads a kernel parameter in the notation of C.
///
/// "const fp32* x" is a pointer to elements that the kernel reads, "out fp32* y" to
/// elements that it writes, "fp32* y" to elements that it reads and writes, "constant
/// fp32* t" to constant memory, and "void* p" to elements of any type. "int32 n" is a
/// number, and "opaque:20 options" is a value of 20 bytes.
/// @error{invalid_argument, the text has another form, or the type is unknown}
[[nodiscard]] result<tessera::kernel_parameter> read_parameter(std::string_view text);
/// Returns a parameter in the notation that `read_parameter` reads.
[[nodiscard]] std::string parameter_text(const tessera::kernel_parameter& parameter);

/// Reads an argument LEVEL=FILE, such as "x86-64-v3=saxpy.so", which names a shared
/// object.
/// @error{invalid_argument, the text has another form}
[[nodiscard]] result<code_file> read_code_argument(const std::string& text);

}  // namespace weir::tools
