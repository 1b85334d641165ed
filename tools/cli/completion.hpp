// SPDX-License-Identifier: Apache-2.0
/// @file
/// Scripts that complete the command line in a shell.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "weir/base/error.hpp"

namespace weir::tools {

/// Returns a script that completes the verbs and options of `app`, and names of files in
/// all other places.
/// @param shell  "bash", "zsh" or "fish".
/// @error{invalid_argument, another shell}
[[nodiscard]] result<std::string> completion_script(const CLI::App& app,
                                                    const std::string& shell);

}  // namespace weir::tools
