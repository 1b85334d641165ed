// SPDX-License-Identifier: Apache-2.0
/// @file
/// The line of progress that a run shows on a terminal and keeps overwriting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "weir/actors/run.hpp"

namespace weir::tools {

/// Returns a number >= 0 without its fraction, in groups of three digits: "1,046,915".
[[nodiscard]] std::string grouped(double value);

/// Returns the line of progress: phase, part done, tokens per second, bits per byte, time
/// left, achieved shares of a mixture, last durable checkpoint.
/// @param colour  If true, escape sequences emphasise the figures.
[[nodiscard]] std::string progress_text(const actors::run_progress& p, bool colour);

/// Returns the first bytes of a line, at most `bytes`, without a part of a character at
/// the end.
/// @pre the line is UTF-8
[[nodiscard]] std::string cut_line(const std::string& line, std::size_t bytes);

/// Draws the line of progress on standard error, over the line before. Draws nothing if
/// standard error is not a terminal. `NO_COLOR` turns the emphasis off.
/// @threads{thread-compatible}
class progress_line {
 public:
  progress_line();
  ~progress_line();
  progress_line(const progress_line&) = delete;
  progress_line& operator=(const progress_line&) = delete;

  /// Draws the line of a job that learns from text.
  void show(const actors::run_progress& p);
  /// Draws a line without colours.
  void show(const std::string& text);
  /// Removes the line, so that other text can be printed in its place.
  void clear();

 private:
  void draw(const std::string& line);

  bool terminal_;
  bool colour_;
  bool shown_ = false;
};

}  // namespace weir::tools
