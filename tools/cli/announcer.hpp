// SPDX-License-Identifier: Apache-2.0
/// @file
/// The lines that a run prints while it works, beside its line of progress and its log.
#pragma once

#include <string>

#include "output.hpp"
#include "watch/progress.hpp"
#include "watch/run_log.hpp"

namespace weir::tools {

/// Prints lines of a run. The line of progress is removed first, so that they do not mix.
/// @threads{thread-compatible}
class announcer {
 public:
  /// @param json  True if standard output carries JSON: lines go to standard error then.
  announcer(output& out, bool json, run_log& log) : out_(out), json_(json), log_(log) {}

  /// Prints a line for people.
  void say(const std::string& line);
  /// Prints a warning to standard error and writes it into the log.
  void warning(const std::string& text);
  /// Removes the line of progress and writes an error into the log.
  void failure(const error& e);

 protected:
  run_log& log() { return log_; }
  progress_line& line() { return progress_; }

 private:
  output& out_;
  bool json_;
  run_log& log_;
  progress_line progress_;
};

}  // namespace weir::tools
