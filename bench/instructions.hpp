// SPDX-License-Identifier: Apache-2.0
/// @file
/// Counts the instructions of a program. Unlike a time, the count hardly differs between
/// runs, whatever else the machine does.
#pragma once

#include <array>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

namespace weir::bench {

/// Returns the number of instructions that a command executes, counted by callgrind.
/// @throws std::runtime_error if there is no count
[[nodiscard]] inline double instructions_of(const std::string& command) {
  const std::string line =
      "timeout 300 valgrind --tool=callgrind --callgrind-out-file=/dev/null " + command +
      " 2>&1 </dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(line.c_str(), "r"), ::pclose);
  std::array<char, 256> text{};
  double count = 0;
  while (pipe != nullptr && std::fgets(text.data(), text.size(), pipe.get()) != nullptr) {
    double found = 0;
    if (std::sscanf(text.data(), "==%*d== Collected : %lf", &found) == 1) {
      count = found;
    }
  }
  if (count == 0) {
    throw std::runtime_error("no number of instructions from: " + line);
  }
  return count;
}

}  // namespace weir::bench
