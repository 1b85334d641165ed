// SPDX-License-Identifier: Apache-2.0
/// @file
/// `weir prove`: runs a pipeline in variants that must not change its outputs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/commands.hpp"

namespace CLI {
class App;
}

namespace weir::tools {

/// Options of `weir prove`.
struct prove_options {
  std::string file;                    ///< file of a pipeline
  std::vector<std::string> sets;       ///< KEY=VALUE; they override the file
  std::vector<std::string> plugins{};  ///< plug-ins beside those of the file
  std::uint32_t runs = 3;              ///< runs that are killed and resumed
  std::uint64_t seed = 1;              ///< of the instants at which they are killed
  std::string folder;  ///< folder of the variants; empty: one that is removed
  bool json = false;   ///< print facts as JSON
};

/// Performs `weir prove`: runs a pipeline with 1 and 2 workers, windows of 1 item, every
/// stage on a host of its own, and killed at random instants and resumed. The memory of
/// items has other bytes in each variant before a stage writes them. Compares the
/// outputs, and at a difference names the first stage and item that differ; the exit code
/// is 1 then.
/// @error{unsupported, an input or output is a pipe, or the file describes no stages}
/// @error{kernel_failed, a variant fails} @error{interrupted, a signal has asked to stop}
/// Errors of `read_pipeline`, `make_loaded` and `check_files` are passed on.
[[nodiscard]] command_result prove_command(const prove_options& options, output& out);

/// Adds the verb `prove`. `chosen` is set when it is on the command line.
void add_prove_verb(CLI::App& app, std::function<command_result(output&)>& chosen);

}  // namespace weir::tools
