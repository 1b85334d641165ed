// SPDX-License-Identifier: Apache-2.0
/// @file
/// `DIR/log`: what happened to a run, one line each with the time, over all its
/// processes.
#pragma once

#include <memory>
#include <string>

#include "weir/base/error.hpp"

namespace weir::tools {

/// Appends to the log of a run folder; every line is handed to the system at once, so a
/// kill loses none.
/// @threads{thread-compatible}
class run_log {
 public:
  /// @error{io, the file cannot be opened}
  [[nodiscard]] static result<run_log> open(const std::string& folder);
  run_log(run_log&&) noexcept;
  run_log& operator=(run_log&&) noexcept;
  ~run_log();

  void info(const std::string& text);
  void warning(const std::string& text);
  void failure(const std::string& text);

 private:
  struct state;
  explicit run_log(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

}  // namespace weir::tools
