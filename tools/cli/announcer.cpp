// SPDX-License-Identifier: Apache-2.0
/// @file
/// Printing of lines beside a line of progress.
///
/// A line of progress stands at the bottom of the terminal and is drawn over and over.
/// Whatever else is printed must erase it first; it comes back with the next event.
#include "announcer.hpp"

#include <fmt/core.h>

namespace weir::tools {

void announcer::say(const std::string& line) {
  // Erased before the line goes out, on both ways.
  progress_.clear();
  // With `--json`, standard output belongs to the facts. The lines are for people, so
  // they go to standard error instead.
  if (!json_) {
    out_.write(line + "\n");
    // Flushed at once, because a reader on the other end of a pipe follows the run.
    out_.flush();
  }
  // If the reader of standard output has left, the line is still shown to the user.
  if (json_ || out_.lost()) {
    fmt::print(stderr, "{}\n", line);
  }
}

void announcer::warning(const std::string& text) {
  progress_.clear();
  // Warnings go to both places: the terminal may be gone when someone looks into the log.
  fmt::print(stderr, "warning: {}\n", text);
  log_.warning(text);
}

void announcer::failure(const error& e) {
  progress_.clear();
  // Only the log gets the error here. The program itself prints it at its end.
  log_.failure(e.message());
}

}  // namespace weir::tools
