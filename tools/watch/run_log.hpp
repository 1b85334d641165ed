// SPDX-License-Identifier: Apache-2.0
/// @file
/// The log of a run folder, `DIR/log`: one line with the time for each event, over all
/// processes that worked on the run.
#pragma once

#include <memory>
#include <string>

#include "weir/base/error.hpp"

namespace weir::tools {

/// Appends to the log of a run folder. Every line is passed to the operating system at
/// once, so that it survives if the process is killed.
/// @threads{thread-compatible}
class run_log {
 public:
  /// Opens the log of a folder for appending.
  /// @error{io, the file cannot be opened}
  [[nodiscard]] static result<run_log> open(const std::string& folder);
  run_log(run_log&&) noexcept;
  run_log& operator=(run_log&&) noexcept;
  ~run_log();

  /// Adds a line of level "info".
  void info(const std::string& text);
  /// Adds a line of level "warning".
  void warning(const std::string& text);
  /// Adds a line of level "error".
  void failure(const std::string& text);

 private:
  struct state;
  explicit run_log(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

}  // namespace weir::tools
