// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs a program and returns what it prints.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "weir/base/error.hpp"

namespace weir::actors {

/// Bounds of a child process.
struct child_limits {
  std::chrono::milliseconds time =
      std::chrono::seconds(20);              ///< longest time until its end
  std::size_t bytes = std::size_t{1} << 20;  ///< largest size of its standard output
  std::size_t error_bytes = 16384;           ///< last bytes of its standard error to keep
};

/// Result of a child process.
/// @threads{a value}
struct child_output {
  bool exited = false;  ///< true if it has ended by itself, false if a signal ended it
  int status = 0;       ///< exit status, or number of the signal
  std::string out;      ///< standard output
  std::string error;    ///< last bytes of standard error
};

/// Runs a program to its end. Its standard input is empty.
/// @param command  Path of the program, and its arguments.
/// @error{timeout; it has not ended in time; it is killed}
/// @error{out_of_range; it prints too much; it is killed}
/// @error{not_found; the program does not exist} @error{io; it cannot be started}
/// @threads{safe to call concurrently}
[[nodiscard]] result<child_output> run_child(const std::vector<std::string>& command,
                                             const child_limits& limits = {});

}  // namespace weir::actors
