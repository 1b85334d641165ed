// SPDX-License-Identifier: Apache-2.0
/// @file
/// The side of the child process: serves one stage for the run that has started it.
#pragma once

#include <functional>
#include <string>

#include "weir/pipeline/catalog.hpp"

namespace weir::actors {

/// Adds the stages of a file to a catalog.
using plugin_loader =
    std::function<result<void>(flow::catalog& to, const std::string& file)>;

/// Serves the stage that the run asks for until the run closes the socket. The stage is
/// looked up in `known` and in the plug-ins that the run names.
/// @returns The exit status: 0 after the request to end and after the end of the run.
[[nodiscard]] int serve_stage(flow::catalog& known, const plugin_loader& load);

}  // namespace weir::actors
