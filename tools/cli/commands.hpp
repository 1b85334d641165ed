// SPDX-License-Identifier: Apache-2.0
/// @file
/// What each command of `weir` takes and does. The command tree itself is in main.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "output.hpp"
#include "weir/base/error.hpp"

namespace weir::tools {

/// Exit code of a command that ran; failures travel as errors and get theirs from
/// `exit_code_of`.
using command_result = result<int>;

struct run_options {
  std::string file;               ///< configuration
  std::vector<std::string> sets;  ///< key=value
  std::string out;                ///< run folder; empty: runs/NAME-N
  bool json = false;
};
struct resume_options {
  std::string folder;
  std::vector<std::string> sets;
  bool json = false;
};
/// @error{already_exists, the folder holds a checkpoint; what the run returns}
[[nodiscard]] command_result run_command(const run_options& options, output& out);
/// @error{not_found, no such folder; config_mismatch; what the run returns}
[[nodiscard]] command_result resume_command(const resume_options& options, output& out);

struct speak_options {
  std::string from;  ///< run folder or volume
  std::string tag = "prose";
  std::string prompt;
  std::uint64_t tokens = 200;
  double temperature = 0.8;
  std::uint64_t seed = 1;
  bool json = false;
};
[[nodiscard]] command_result speak_command(const speak_options& options, output& out);

struct store_options {
  std::string folder;
  std::string volume;
  std::string tag = "prose";
  bool json = false;
};
[[nodiscard]] command_result store_command(const store_options& options, output& out);

struct report_options {
  std::string folder;
  bool json = false;
};
[[nodiscard]] command_result report_command(const report_options& options, output& out);

struct folder_options {
  std::string folder;
  bool json = false;
};
/// 0 only if a valid generation exists.
[[nodiscard]] command_result checkpoint_ls(const folder_options& options, output& out);
/// 0 only if every file is good; names each that is not.
[[nodiscard]] command_result checkpoint_verify(const folder_options& options,
                                               output& out);

struct trace_options {
  std::string file;  ///< trace.json, a run folder that holds one, or "-"
  bool json = false;
};
/// Critical path, lines of the workers, what tasks waited for.
/// @error{not_found; corrupt, no list of events}
[[nodiscard]] command_result trace_command(const trace_options& options, output& out);

struct doctor_options {
  bool json = false;
};
[[nodiscard]] command_result doctor_command(const doctor_options& options, output& out);

}  // namespace weir::tools
