// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the command line says of arguments that it cannot use.
#pragma once

#include <CLI/CLI.hpp>

namespace weir::tools {

/// Numbers without a sign take none: the parser would wrap them around.
void refuse_negative_numbers(CLI::App& app);

/// Says why the arguments were refused, on stderr, or prints the help that was asked for.
/// Returns the exit code.
[[nodiscard]] int refuse(CLI::App& app, const CLI::ParseError& why);

}  // namespace weir::tools
