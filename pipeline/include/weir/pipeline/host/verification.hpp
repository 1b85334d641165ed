// SPDX-License-Identifier: Apache-2.0
/// @file
/// Comparison of the outputs of a finished run with its last image.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weir/pipeline/graph.hpp"
#include "weir/pipeline/host/execution.hpp"
#include "weir/pipeline/host/image.hpp"

namespace weir::flow {

/// Lets each sink compare its output with its offset in the image. Nothing is changed.
/// @param stages  Stages in the order of the graph.
/// @param host    Engine for the stages.
/// @returns The names of the sinks that cannot compare their output.
/// @error{torn, an output is gone or shorter} @error{hash_mismatch, it is another one}
/// @error{corrupt, the image lacks an offset}
/// @threads{thread-compatible}
[[nodiscard]] result<std::vector<std::string>> verify_outputs(
    const graph& g, const std::vector<std::unique_ptr<stage_object>>& stages,
    weir::engine& host, const execution_options& options, const image& from);

}  // namespace weir::flow
