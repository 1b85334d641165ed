// SPDX-License-Identifier: Apache-2.0
/// @file
/// `weir pipe`: runs a pipeline of one line, also between the pipes of a shell.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/commands.hpp"

namespace CLI {
class App;
}

namespace weir::tools {

/// Options of `weir pipe`.
struct pipe_options {
  std::vector<std::string> words;      ///< the line, in one or several words
  bool toml = false;                   ///< print the pipeline as a file instead
  std::uint32_t workers = 1;           ///< threads that run tasks
  std::string folder;                  ///< run folder; empty: nothing is left
  std::vector<std::string> plugins{};  ///< plug-ins with further stages
};

/// Performs `weir pipe`. Everything that is said goes to standard error, because standard
/// output may carry messages. If the reader of standard output leaves, the run ends well.
/// @error{invalid_argument, unknown_key, the line is refused; the message gives the
/// column} Errors of `load_plugin`, `pipeline::check` and `weir::run` are passed on.
[[nodiscard]] command_result pipe_command(const pipe_options& options, output& out);

/// Adds the verb `pipe`. `chosen` is set when it is on the command line.
void add_pipe_verb(CLI::App& app, std::function<command_result(output&)>& chosen);

}  // namespace weir::tools
