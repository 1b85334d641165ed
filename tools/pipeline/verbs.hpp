// SPDX-License-Identifier: Apache-2.0
/// @file
/// The verbs that look at pipelines and at the stages that the program knows.
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

/// Options of `weir check` and `weir graph`.
struct graph_options {
  std::string file;               ///< file of a pipeline
  std::string run{};              ///< `graph`: a run folder to draw instead of a file
  std::vector<std::string> sets;  ///< KEY=VALUE; they override the file
  std::string drawing = "-";  ///< `graph`: file for the drawing; "-" for standard output
  bool dot = false;           ///< `graph`: text for Graphviz instead of SVG
  bool json = false;
  std::vector<std::string> plugins{};  ///< plug-ins beside those of the file
};
/// Performs `weir check`: prints types, windows, memory, guarantee and notes of a
/// pipeline. Errors of `load_pipeline` and `pipeline::check` are passed on.
[[nodiscard]] command_result check_command(const graph_options& options, output& out);
/// Performs `weir graph`: draws a pipeline, or that of a run with the rates of its stages
/// and the depths of its edges.
/// @error{invalid_argument, neither a file nor a run folder is given, or both}
/// @error{no_space, io, the drawing cannot be written}
/// Errors of `read_pipeline_metrics`, `load_pipeline` and `pipeline::check` are passed
/// on.
[[nodiscard]] command_result graph_command(const graph_options& options, output& out);

/// Options of `weir stages` and `weir inspect`.
struct stages_options {
  std::string stage;  ///< `inspect`: full name of the stage
  bool json = false;
  std::vector<std::string> plugins{};  ///< plug-ins whose stages are known, too
  bool markdown = false;               ///< `stages`: print the page docs/stages.md
};
/// Performs `weir stages`: lists the stages that files may use.
/// Errors of `load_plugin` are passed on.
[[nodiscard]] command_result stages_command(const stages_options& options, output& out);
/// Performs `weir inspect`: prints ports, settings and state of a stage.
/// @error{unknown_key, no stage has the name; the message suggests the nearest}
/// Errors of `load_plugin` are passed on.
[[nodiscard]] command_result inspect_command(const stages_options& options, output& out);

/// Adds the option `--plugin` to a verb.
void add_plugin_option(CLI::App& verb, std::vector<std::string>& plugins);

/// Adds the verbs `check`, `graph`, `stages` and `inspect`. `chosen` is set when one of
/// them is on the command line.
void add_pipeline_verbs(CLI::App& app, std::function<command_result(output&)>& chosen);

}  // namespace weir::tools
