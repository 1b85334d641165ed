// SPDX-License-Identifier: Apache-2.0
/// @file
/// The verbs of `weir module`: what each takes, and how they stand on the command line.
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

struct module_options {
  std::string file;                ///< module, description, or key
  std::string out;                 ///< of `build` and `sign`
  std::vector<std::string> code;   ///< of `build`: LEVEL=FILE
  std::string key;                 ///< secret key of `build` and `sign`
  std::string trusted;             ///< of `verify`: keys, or a file of them
  bool require_signature = false;  ///< of `verify`
  bool force = false;              ///< replace an existing file
  bool json = false;
};

[[nodiscard]] command_result module_build(const module_options& options, output& out);
[[nodiscard]] command_result module_ls(const module_options& options, output& out);
[[nodiscard]] command_result module_explain(const module_options& options, output& out);
[[nodiscard]] command_result module_verify(const module_options& options, output& out);
[[nodiscard]] command_result module_sign(const module_options& options, output& out);
[[nodiscard]] command_result module_keygen(const module_options& options, output& out);

/// Adds `module` with its verbs; `chosen` is set when one was asked for.
void add_module_verbs(CLI::App& app, std::function<command_result(output&)>& chosen);

}  // namespace weir::tools
