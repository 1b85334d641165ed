// SPDX-License-Identifier: Apache-2.0
/// @file
/// Figures of the reference's Python package, measured in this run.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "formats/rows.hpp"

namespace weir::bench {

namespace {

/// Returns a Python that has the package: the one that the environment names, or the one
/// that the tests have installed.
std::string wheel_python() {
  if (const char* given = std::getenv("WEIR_TENSOGRAM_PYTHON")) {
    return given;
  }
  const std::string made = WEIR_BINARY_DIR "/tensogram-venv/bin/python";
  return std::filesystem::exists(made) ? made : std::string();
}

/// Returns the output of the script; null if it cannot be run.
nlohmann::json run_wheel() {
  const std::string python = wheel_python();
  if (python.empty()) {
    return nullptr;
  }
  // Keeps memory between calls, as this program does.
  const std::string command =
      "MALLOC_MMAP_THRESHOLD_=33554432 MALLOC_TRIM_THRESHOLD_=1073741824 '" + python +
      "' '" WEIR_SOURCE_DIR "/bench/formats/wheel.py' 2>/dev/null";
  std::string text;
  if (std::FILE* pipe = ::popen(command.c_str(), "r")) {
    char piece[512];
    while (const std::size_t got = std::fread(piece, 1, sizeof piece, pipe)) {
      text.append(piece, got);
    }
    ::pclose(pipe);
  }
  return nlohmann::json::parse(text, nullptr, false);
}

}  // namespace

std::optional<double> wheel_ms(const std::string& name, bool encode) {
  static const nlohmann::json figures = run_wheel();
  if (!figures.is_object() || !figures.contains(name)) {
    return std::nullopt;
  }
  const std::size_t column = encode ? 0 : 1;
  return figures[name][column].get<double>() - figures["none"][column].get<double>();
}

}  // namespace weir::bench
