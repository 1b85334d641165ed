// SPDX-License-Identifier: Apache-2.0
/// @file
/// Printing of lines beside a line of progress.
#include "announcer.hpp"

#include <fmt/core.h>

namespace weir::tools {

void announcer::say(const std::string& line) {
  progress_.clear();
  if (!json_) {
    out_.write(line + "\n");
    out_.flush();
  }
  if (json_ || out_.lost()) {
    fmt::print(stderr, "{}\n", line);
  }
}

void announcer::warning(const std::string& text) {
  progress_.clear();
  fmt::print(stderr, "warning: {}\n", text);
  log_.warning(text);
}

void announcer::failure(const error& e) {
  progress_.clear();
  log_.failure(e.message());
}

}  // namespace weir::tools
