// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs this program as a child process, and kills it at a given time.
#pragma once

#include <functional>
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

/// The instant at which a child process is killed.
struct kill_plan {
  std::function<bool()> ready;  ///< asked until it returns true; empty: true at once
  double after_s = 0;           ///< time from then to the kill
};

/// Runs this program in a child process and waits for its end.
/// @param arguments    Arguments behind the name of the program.
/// @param messages     File that gets its standard output and standard error.
/// @param kill         Instant at which it gets SIGKILL; it is not killed without.
/// @error{io, the process cannot be started} @error{interrupted, it was ended by a signal
/// of others}
/// @threads{safe to call concurrently}
[[nodiscard]] result<child_end> run_child(const std::vector<std::string>& arguments,
                                          const std::string& messages,
                                          const std::optional<kill_plan>& kill);

}  // namespace weir::tools
