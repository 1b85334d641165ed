// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs of pipelines from the command line, and their folders.
///
/// A run folder holds pipeline.toml (a copy of the file, with the assignments of the
/// command line), log, checkpoint/, and at the end metrics.json and report.html.
/// @threads{commands: one at a time in a process}
#pragma once

#include <string>

#include "cli/commands.hpp"
#include "file.hpp"
#include "weir/pipeline/host/image.hpp"

namespace weir::tools {

/// Returns whether a file can be read and has a table [[stage]].
[[nodiscard]] bool describes_pipeline(const std::string& path);
/// Returns whether a run folder is that of a pipeline.
[[nodiscard]] bool holds_pipeline(const std::string& folder);

/// Reads a range of items such as `100:120`.
/// @error{invalid_argument, the text is no range, or the range is empty}
[[nodiscard]] result<flow::item_range> parse_range(const std::string& text);

/// Checks a pipeline, and the files that its stages read and write.
/// @error{not_found, a file that a stage reads does not exist}
/// Errors of `pipeline::check` and `flow::check_outputs` are passed on.
[[nodiscard]] result<void> check_files(const loaded_pipeline& loaded);
/// Begins the run of a pipeline in a folder, which is made, and prints to `out`.
/// @param folder  Run folder; if empty, a new folder runs/NAME-N.
/// @error{already_exists, the folder holds the run of a pipeline}
/// Errors of `check_files` and `weir::run` are passed on.
[[nodiscard]] command_result run_loaded(loaded_pipeline& loaded,
                                        const std::string& folder, bool json,
                                        output& out);

/// Performs `weir run` with the file of a pipeline. A refused pipeline leaves no folder.
/// @error{already_exists, the folder holds the run of a pipeline}
/// Errors of `load_pipeline`, `pipeline::check` and `weir::run` are passed on.
[[nodiscard]] command_result run_pipeline(const run_options& options, output& out);
/// Performs `weir resume` in the folder of a pipeline.
/// Errors of `load_pipeline`, `pipeline::check` and `weir::resume` are passed on.
[[nodiscard]] command_result resume_pipeline(const resume_options& options, output& out);
/// Performs `weir report` in the folder of a pipeline.
/// Errors of `write_pipeline_report` are passed on.
[[nodiscard]] command_result report_pipeline(const report_options& options, output& out);

}  // namespace weir::tools
