// SPDX-License-Identifier: Apache-2.0
/// @file
/// Messages about arguments that the command line cannot use.
#pragma once

#include <CLI/CLI.hpp>

namespace weir::tools {

/// Makes all unsigned options of a command and of its verbs refuse negative numbers,
/// which the parser would otherwise turn into huge positive ones.
void refuse_negative_numbers(CLI::App& app);

/// Prints why the arguments were refused to standard error, or the help or version that
/// was asked for to standard output.
/// @returns The exit code of the program.
[[nodiscard]] int refuse(CLI::App& app, const CLI::ParseError& why);

}  // namespace weir::tools
