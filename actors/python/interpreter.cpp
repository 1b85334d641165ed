// SPDX-License-Identifier: Apache-2.0
/// @file
/// Finds the interpreter and the package.
///
/// Interpreter: WEIR_PYTHON, or /usr/bin/python3. Package: WEIR_PYTHON_PATH, a folder
/// above the program, or the folder of the installation. A wrong variable is an error and
/// no reason to search on, because another version would be used unnoticed.
#include "python/interpreter.hpp"

#include <unistd.h>

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <utility>

namespace weir::actors {
namespace {

namespace fs = std::filesystem;

/// Folders above that of the program which may hold the package.
constexpr int max_levels = 8;

/// An unset variable and an empty one are the same here.
std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

/// Whether the interpreter has NumPy is not asked here; the import fails in the child.
result<std::string> find_interpreter() {
  const std::string chosen = environment("WEIR_PYTHON");
  const std::string path = chosen.empty() ? "/usr/bin/python3" : chosen;
  if (::access(path.c_str(), X_OK) == 0) {
    return path;
  }
  return error(errc::unsupported,
               fmt::format("cannot use stages in Python: expected an interpreter at "
                           "\"{}\", found none",
                           path))
      .hint(
          "install the Debian packages python3 and python3-numpy, or set WEIR_PYTHON "
          "to an interpreter that has NumPy");
}

/// Returns the folder that holds the package: beside the sources of a build, or where
/// `make install` puts it.
result<std::string> find_package() {
  std::error_code ignored;
  const auto holds = [&](const fs::path& folder) {
    return fs::is_regular_file(folder / "weir" / "host.py", ignored);
  };
  const std::string chosen = environment("WEIR_PYTHON_PATH");
  if (!chosen.empty()) {
    if (holds(chosen)) {
      return fs::absolute(chosen).string();
    }
    return error(errc::not_found,
                 fmt::format("cannot use stages in Python: expected the package weir in "
                             "the folder WEIR_PYTHON_PATH, \"{}\", found none",
                             chosen));
  }
  // In a build tree the program lies some folders below the sources.
  fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (int level = 0; level < max_levels && folder.has_relative_path(); ++level) {
    for (const char* below : {WEIR_PYTHON_FOLDER, "python"}) {
      if (holds(folder / below)) {
        return (folder / below).string();
      }
    }
    folder = folder.parent_path();
  }
  // The folder of this installation, then the one of the Debian package.
  for (const char* place : {WEIR_PYTHON_INSTALLED, "/usr/lib/python3/dist-packages"}) {
    if (holds(place)) {
      return std::string(place);
    }
  }
  return error(errc::not_found,
               "cannot use stages in Python: expected the Python package weir beside the "
               "program, found none")
      .hint("set WEIR_PYTHON_PATH to the folder that holds weir/host.py");
}

/// Adds a program that starts the interpreter so that the bytes which a stage makes do
/// not depend on chance: the order of sets is fixed, and libraries of linear algebra use
/// one thread. What a stage prints is shown at once. Variables that are set already stay.
void add_environment(std::vector<std::string>& command) {
  command.emplace_back("/usr/bin/env");
  for (const auto& [name, value] : {std::pair{"PYTHONHASHSEED", "0"},
                                    {"PYTHONUNBUFFERED", "1"},
                                    {"OMP_NUM_THREADS", "1"},
                                    {"OPENBLAS_NUM_THREADS", "1"},
                                    {"MKL_NUM_THREADS", "1"}}) {
    if (environment(name).empty()) {
      command.push_back(fmt::format("{}={}", name, value));
    }
  }
}

}  // namespace

// `module` is "describe" or "host". Only the host runs stages, so only it gets the fixed
// environment.
result<std::vector<std::string>> python_command(const std::string& module) {
  WEIR_TRY(const std::string interpreter, find_interpreter());
  WEIR_TRY(const std::string package, find_package());
  std::vector<std::string> command;
  if (module == "host") {
    add_environment(command);
  }
  // The first folder of modules is the working folder, whose files are none of ours.
  command.insert(command.end(), {interpreter, "-B", "-c",
                                 fmt::format("import sys; sys.path[0] = sys.argv.pop(1); "
                                             "from weir import {0}; {0}.main()",
                                             module),
                                 package});
  return command;
}

}  // namespace weir::actors
