// SPDX-License-Identifier: Apache-2.0
/// @file
/// The line of progress of verbs that process texts.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "watch/progress.hpp"

namespace weir::tools {

/// Draws texts, tokens and tokens per second on a terminal, at most five times a second.
/// @threads{thread-compatible}
class text_progress {
 public:
  /// @param things  What is counted, in the plural.
  explicit text_progress(std::string things) : things_(std::move(things)) {}
  ~text_progress() { line_.clear(); }
  text_progress(const text_progress&) = delete;
  text_progress& operator=(const text_progress&) = delete;

  /// Draws the line if the last one is old enough.
  void show(std::uint64_t count, std::uint64_t tokens) {
    const double now = seconds();
    if (now - drawn_ < 0.2) {
      return;
    }
    drawn_ = now;
    line_.show(fmt::format("{} {}  {} tokens/s", grouped(static_cast<double>(count)),
                           things_, grouped(static_cast<double>(tokens) / now)));
  }
  /// Returns the time since the beginning.
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_)
        .count();
  }

 private:
  /// Noun that follows the number of things, such as "texts".
  std::string things_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  double drawn_ = 0;
  progress_line line_;
};

}  // namespace weir::tools
