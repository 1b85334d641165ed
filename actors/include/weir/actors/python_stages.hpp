// SPDX-License-Identifier: Apache-2.0
/// @file
/// Stages that are written in Python.
#pragma once

#include <string>

#include "weir/pipeline/catalog.hpp"

namespace weir {

/// Adds the stages of a Python file to a catalog, with their ports and settings.
///
/// The file runs in a child process once, which describes its stages; it takes some
/// 200 ms. The interpreter is the one that the environment variable `WEIR_PYTHON` names,
/// else `/usr/bin/python3`; it needs the Debian package `python3-numpy`. The package
/// `weir` lies in the folder that `WEIR_PYTHON_PATH` names, else near the program.
/// @param file  Path as the process finds it.
/// @error{unsupported, there is no interpreter, or it has no NumPy; the message names the
/// Debian package}
/// @error{not_found, the file or the Python package `weir` does not exist}
/// @error{invalid_argument, the file does not run, has no stage, or describes one
/// wrongly; the message names the line}
/// @error{already_exists, the catalog or the file has a stage of the same name}
/// @error{timeout, the file runs for more than 20 s}
/// @error{out_of_range, it describes its stages by more than 1 MiB}
/// @threads{thread-compatible} @source{docs/pipelines.md}
[[nodiscard]] result<void> add_python_stages(flow::catalog& to, const std::string& file);

}  // namespace weir
