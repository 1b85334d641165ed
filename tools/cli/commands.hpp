// SPDX-License-Identifier: Apache-2.0
/// @file
/// The commands of `weir`: the options of each and the function that performs it.
///
/// main.cpp parses the command line into the options and calls the function. Commands
/// print facts to `out`; failures travel back as errors, and main.cpp prints them. With
/// `json`, a command prints one JSON value and nothing else.
/// @threads{commands: one at a time in a process}
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "output.hpp"
#include "weir/base/error.hpp"

namespace weir::tools {

/// The exit code of a command that did its work, or the error that prevented it, whose
/// exit code `exit_code_of` gives.
using command_result = result<int>;

/// Options of `weir run`.
struct run_options {
  std::string file;               ///< configuration in TOML
  std::vector<std::string> sets;  ///< KEY=VALUE; they override the file
  std::string out;                ///< run folder; if empty, a new folder runs/NAME-N
  bool json = false;
  std::vector<std::string> plugins{};  ///< plug-ins beside those of the file
};
/// Options of `weir resume`.
struct resume_options {
  std::string folder;
  std::vector<std::string> sets;
  std::uint64_t generation = 0;  ///< of the checkpoint; 0 for the newest
  /// Ranges of items that are not processed, each as `FROM:TO`. The items of a job that
  /// learns from text are pulses.
  std::vector<std::string> skips{};
  bool json = false;
  std::vector<std::string> plugins{};  ///< plug-ins beside those of the run
};
/// Performs `weir run`: begins a run in a new folder. A file with a table [[stage]]
/// describes a pipeline of stages, any other file a job that learns from text.
/// @error{already_exists, the folder holds checkpoints, or the run of a pipeline}
/// @error{invalid_argument, unknown_key, a setting is refused; no folder was made}
/// @error{locked, another process works in the folder}
/// @error{io, no_space, the folder or a file in it cannot be written}
/// Errors of `actors::run` and `weir::run` are passed on.
[[nodiscard]] command_result run_command(const run_options& options, output& out);
/// Performs `weir resume`: continues a run from its newest valid checkpoint.
/// @error{not_found, the folder or its config.toml does not exist}
/// @error{config_mismatch, a setting would change that is fixed once a run has begun}
/// @error{invalid_argument, unknown_key, a setting is refused}
/// @error{locked, another process works in the folder}
/// Errors of `actors::resume` and `weir::resume` are passed on.
[[nodiscard]] command_result resume_command(const resume_options& options, output& out);

/// Options of `weir settings`.
struct settings_options {
  std::string key;        ///< a key or a group of keys; if empty, all keys
  bool markdown = false;  ///< print the page docs/settings.md
  bool json = false;
};
/// Performs `weir settings`: prints meaning, accepted values and default of settings.
/// @error{unknown_key, no key and no group has this name}
[[nodiscard]] command_result settings_command(const settings_options& options,
                                              output& out);
/// Returns the keys that `--set` accepts, for the help of `weir run`, or of `weir resume`
/// if `resuming`.
[[nodiscard]] std::string settings_help(bool resuming);

/// Options of `weir speak`.
struct speak_options {
  std::string from;           ///< run folder, or HN4 volume
  std::string tag = "prose";  ///< tag of the volume
  std::string prompt;
  std::uint64_t tokens = 200;
  double temperature = 0.8;  ///< 0 takes the likeliest token
  std::uint64_t seed = 1;
  std::string kernels = "auto";  ///< instruction set
  bool json = false;
};
/// Performs `weir speak`: continues a text with the parameters of a run or of a volume.
/// @error{invalid_argument, the temperature is not from 0 to 100}
/// Errors of `actors::speak` are passed on.
[[nodiscard]] command_result speak_command(const speak_options& options, output& out);

/// Options of `weir sessions`.
struct sessions_options {
  std::string folder;            ///< folder of the sessions
  std::string from;              ///< run folder or HN4 volume; empty to continue
  std::string tag = "prose";     ///< tag of the volume
  std::uint32_t limit = 16;      ///< largest number of sessions
  std::string kernels = "auto";  ///< instruction set
};
/// Performs `weir sessions`: reads turns of sessions from standard input, one JSON object
/// a line, and prints an answer to each once it is durable.
/// Errors of `actors::session_group::open` are passed on; a line that cannot be answered
/// is answered with an error and does not end the command.
[[nodiscard]] command_result sessions_command(const sessions_options& options,
                                              output& out);

/// Options of `weir store`.
struct store_options {
  std::string folder;  ///< run folder
  std::string volume;
  std::string tag = "prose";
  bool json = false;
};
/// Performs `weir store`: writes the parameters of a run to a volume.
/// Errors of `actors::store_parameters` are passed on.
[[nodiscard]] command_result store_command(const store_options& options, output& out);

/// Options of `weir report`.
struct report_options {
  std::string folder;
  bool json = false;
};
/// Performs `weir report`: writes report.html of a run folder again.
/// Errors of `write_report` are passed on.
[[nodiscard]] command_result report_command(const report_options& options, output& out);

/// Options of the verbs of `weir checkpoint`.
struct folder_options {
  std::string folder;
  bool json = false;
};
/// Performs `weir checkpoint ls`: lists the generations of a run.
/// @error{not_found, the folder does not exist or has no checkpoint}
/// @error{corrupt, no generation is valid}
[[nodiscard]] command_result checkpoint_ls(const folder_options& options, output& out);
/// Performs `weir checkpoint verify`: reads every byte of every generation.
/// @error{not_found, the folder does not exist or has no checkpoint}
/// @error{corrupt, torn, unsupported_version, as of the first damaged generation}
[[nodiscard]] command_result checkpoint_verify(const folder_options& options,
                                               output& out);
/// Performs `weir checkpoint show`: prints the newest valid checkpoint of a run and the
/// changes with which the run was resumed.
/// @error{not_found, there is no such folder or no checkpoint in it}
/// @error{corrupt, no checkpoint is valid}
[[nodiscard]] command_result checkpoint_show(const folder_options& options, output& out);

/// Options of `weir trace`.
struct trace_options {
  std::string file;  ///< a trace, a run folder that holds trace.json, or "-"
  bool json = false;
};
/// Performs `weir trace`: prints the critical path, the load of the workers and the
/// reasons of waiting.
/// @error{not_found, io, the trace cannot be opened}
/// @error{corrupt, the file is not a trace in JSON}
[[nodiscard]] command_result trace_command(const trace_options& options, output& out);

/// Options of `weir doctor`.
struct doctor_options {
  int workers = 0;  ///< of each rank; 0: as many as have a processor each
  bool json = false;
};
/// Performs `weir doctor`: describes this build, this machine, and how this process was
/// started as a rank.
[[nodiscard]] command_result doctor_command(const doctor_options& options, output& out);

}  // namespace weir::tools
