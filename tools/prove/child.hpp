// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs this program as a child process, and kills it at a given time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weir/base/error.hpp"

namespace weir::tools {

/// The end of a child process.
struct child_end {
  bool killed = false;  ///< it was killed before it ended
  int code = 0;         ///< its exit code, if it was not killed
  double seconds = 0;   ///< time from its start
};

/// Runs this program in a child process and waits for its end.
/// @param arguments    Arguments behind the name of the program.
/// @param messages     File that gets its standard output and standard error.
/// @param kill_after_s Time after which it gets SIGKILL; it is not killed without.
/// @error{io, the process cannot be started} @error{interrupted, it was ended by a signal
/// of others}
/// @threads{safe to call concurrently}
[[nodiscard]] result<child_end> run_child(const std::vector<std::string>& arguments,
                                          const std::string& messages,
                                          std::optional<double> kill_after_s);

}  // namespace weir::tools
