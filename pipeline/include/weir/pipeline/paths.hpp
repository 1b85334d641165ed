// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks of the files that the stages of a pipeline read and write. They look at the
/// file system, which `flow::check` does not.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weir/pipeline/graph.hpp"

namespace weir::flow {

/// Returns a path of the settings as the process finds it: relative paths lie in
/// `folder`, or in the current folder if that is empty.
/// @threads{safe to call concurrently}
[[nodiscard]] std::string path_in(std::string_view folder, std::string_view path);

/// Refuses a pipeline in which two stages write one file. Pipes and terminals may be
/// written by several stages, and so may standard output. A path with `{item}` is a
/// pattern; two stages whose patterns can name one file are refused, too.
/// @param folder  Folder of relative paths.
/// @error{invalid_argument, two stages write one file, or may; the message names both}
/// @threads{safe to call concurrently}
[[nodiscard]] result<void> check_outputs(const graph& g, std::string_view folder);

/// Returns an error for each path that a stage reads and that does not exist. Standard
/// input exists.
/// @param folder  Folder of relative paths.
/// @threads{safe to call concurrently}
[[nodiscard]] std::vector<error> missing_inputs(const graph& g, std::string_view folder);

}  // namespace weir::flow
