// SPDX-License-Identifier: Apache-2.0
/// @file
/// A script that completes the command line in a shell.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "weir/base/error.hpp"

namespace weir::tools {

/// A script for `shell` (bash, zsh or fish) that knows the verbs and options of `app`;
/// other words are completed as names of files.
/// @error{invalid_argument, another shell}
[[nodiscard]] result<std::string> completion_script(const CLI::App& app,
                                                    const std::string& shell);

}  // namespace weir::tools
