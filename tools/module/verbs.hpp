// SPDX-License-Identifier: Apache-2.0
/// @file
/// The verbs of `weir module`: their options, and the functions that perform them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/output.hpp"

namespace CLI {
class App;
}

namespace weir::tools {

/// Options of all verbs of `weir module`.
struct module_options {
  std::string file;                   ///< module, description or key
  std::string out;                    ///< output file of `build` and `sign`
  std::vector<std::string> code;      ///< shared objects of `build`: LEVEL=FILE
  std::vector<std::string> gpu_code;  ///< code for GPUs of `build`: [ARCH=]FILE
  std::string key;                    ///< file of the secret key of `build` and `sign`
  std::string trusted;                ///< for `verify`: trusted keys, or a file of them
  bool require_signature = false;     ///< for `verify`: fail without a trusted signature
  bool force = false;  ///< for `build` and `sign`: replace an existing output
  bool json = false;
};

/// Packs kernels and their code into a fatbin.
/// @error{already_exists, the output exists and `force` is not set}
/// @error{not_found, io, no_space, a file cannot be read or written}
/// @error{invalid_argument, unknown_key, the description or the code is wrong}
[[nodiscard]] command_result module_build(const module_options& options, output& out);
/// Lists the kernels, parameters and code sections of a module.
/// @error{not_found, io, the file cannot be read}
/// @error{corrupt, torn, unsupported_version, the file is not a sound module}
[[nodiscard]] command_result module_ls(const module_options& options, output& out);
/// Prints all facts of a module as JSON. Errors are those of `module_ls`.
[[nodiscard]] command_result module_explain(const module_options& options, output& out);
/// Checks a module and its signature.
/// @error{corrupt, a trusted signature is required and missing}
/// Other errors are those of `module_ls`.
[[nodiscard]] command_result module_verify(const module_options& options, output& out);
/// Writes a module again, with a signature.
/// @error{already_exists, `out` names a file that exists and `force` is not set}
/// @error{invalid_argument, the key file does not hold a secret key}
/// @error{no_space, the module cannot be written}
/// Other errors are those of `module_ls`.
[[nodiscard]] command_result module_sign(const module_options& options, output& out);
/// Makes a key pair and writes it to two files; see `write_key_files`.
[[nodiscard]] command_result module_keygen(const module_options& options, output& out);

/// Adds the command `module` and its verbs to the parser.
/// @param chosen  Receives the call that performs the verb of the command line.
void add_module_verbs(CLI::App& app, std::function<command_result(output&)>& chosen);

}  // namespace weir::tools
