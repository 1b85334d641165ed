// SPDX-License-Identifier: Apache-2.0
/// @file
/// The Python interpreter and the Python package of Weir.
#pragma once

#include <string>
#include <vector>

#include "weir/base/error.hpp"

namespace weir::actors {

/// Returns the command that runs `main` of a module of the Python package `weir`. It ends
/// with the path of the folder of the package; arguments may follow.
/// @param module  Name of the module, such as `host`.
/// @error{unsupported, there is no interpreter; the message names the Debian package}
/// @error{not_found, the package is in none of the folders where it may lie}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::vector<std::string>> python_command(const std::string& module);

}  // namespace weir::actors
