// SPDX-License-Identifier: Apache-2.0
/// @file
/// The report of a pipeline's run: report.html with the graph and the counters.
#pragma once

#include <string>

#include "weir/base/error.hpp"

namespace weir::tools {

/// Writes report.html of the run folder of a pipeline and returns its path. Reads
/// metrics.json, pipeline.toml and log.
/// @error{not_found, the folder has no metrics.json: the run has not ended yet}
/// @error{corrupt, metrics.json is not a JSON object}
/// @error{no_space, io, the page cannot be written}
/// @threads{safe to call concurrently for different folders}
[[nodiscard]] result<std::string> write_pipeline_report(const std::string& folder);

}  // namespace weir::tools
