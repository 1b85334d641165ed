// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a user sees of a run while it goes on: one line that renews itself, on a terminal
/// only.
#pragma once

#include <cstdint>
#include <string>

#include "weir/actors/run.hpp"

namespace weir::tools {

/// A number >= 0 without its fraction, digits in groups of three: "1,046,915".
[[nodiscard]] std::string grouped(double value);

/// One line of progress: phase, part done, tokens per second, bits per byte, time left,
/// last durable checkpoint.
/// @param colour  Whether to emphasise figures with escape sequences.
[[nodiscard]] std::string progress_text(const actors::run_progress& p, bool colour);

/// Draws `progress_text` over itself on standard error; says nothing unless that is a
/// terminal.
/// @threads{thread-compatible}
class progress_line {
 public:
  progress_line();
  ~progress_line();
  progress_line(const progress_line&) = delete;
  progress_line& operator=(const progress_line&) = delete;

  void show(const actors::run_progress& p);
  /// Removes the line, so that something else can be printed.
  void clear();

 private:
  bool terminal_;
  bool colour_;
  bool shown_ = false;
};

}  // namespace weir::tools
