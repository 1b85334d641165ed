// SPDX-License-Identifier: Apache-2.0
/// @file
/// The report of a pipeline's run: report.html with the graph and the counters.
#pragma once

#include <string>

#include "facts.hpp"
#include "weir/base/error.hpp"

namespace weir::tools {

/// Reads metrics.json of the run folder of a pipeline.
/// @error{not_found, the folder has no metrics.json: no run has begun in it}
/// @error{corrupt, metrics.json is not a JSON object} @error{io, it cannot be read}
/// @threads{safe to call concurrently}
[[nodiscard]] result<facts> read_pipeline_metrics(const std::string& folder);

/// Returns the error of a report on a folder without metrics.json.
[[nodiscard]] error missing_metrics(const std::string& folder);

/// Writes report.html of the run folder of a pipeline and returns its path. Reads
/// metrics.json, pipeline.toml and log.
/// Also returns the errors of `read_pipeline_metrics`.
/// @error{no_space, io, the page cannot be written}
/// @threads{safe to call concurrently for different folders}
[[nodiscard]] result<std::string> write_pipeline_report(const std::string& folder);

}  // namespace weir::tools
