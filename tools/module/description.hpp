// SPDX-License-Identifier: Apache-2.0
/// @file
/// What `weir module build` is told: kernels, hints and files of code, as TOML.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/tessera/module/fatbin.hpp"

namespace weir::tools {

/// A section of code that is still a file.
struct code_file {
  tessera::section_kind kind = tessera::section_kind::cpu_so;
  std::string arch;
  std::string path;  ///< empty for registered functions
};

/// A kernel and the machines that it is for; none means all.
struct described_kernel {
  tessera::kernel_record record;
  std::vector<std::string> targets;  ///< "x86-64-v3", as of the code
};

struct module_description {
  std::vector<std::string> sources;  ///< files whose content gives the source hash
  std::string explain;               ///< JSON
  std::vector<described_kernel> kernels;
  std::vector<code_file> code;
  std::vector<tessera::plan_record> plans;
  bool has_policy = false;
  tessera::policy_record policy;
};

/// Reads a description; paths in it are relative to `folder`.
/// @error{invalid_argument, no TOML or a value of another kind; unknown_key}
[[nodiscard]] result<module_description> read_description(std::string_view text,
                                                          const std::string& name,
                                                          const std::string& folder);

/// One parameter as C writes it: "const fp32* x" is read, "out fp32* y" written, "fp32*
/// y" both; "int32 n" is a value, "opaque:20 options" that many bytes; "void*" points to
/// anything, "constant fp32* t" to constant memory.
/// @error{invalid_argument}
[[nodiscard]] result<tessera::kernel_parameter> read_parameter(std::string_view text);
/// The same words back.
[[nodiscard]] std::string parameter_text(const tessera::kernel_parameter& parameter);

/// "x86-64-v3=FILE" @error{invalid_argument}
[[nodiscard]] result<code_file> read_code_argument(const std::string& text);

}  // namespace weir::tools
