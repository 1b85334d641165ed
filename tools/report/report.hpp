// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes the report of a run folder, report.html.
#pragma once

#include <string>
#include <vector>

#include "weir/base/error.hpp"

namespace weir::tools {

/// The path of a report, and its comparison with other models of the same text.
struct written_report {
  std::string path;            ///< path of report.html
  std::string verdict;         ///< empty if nothing could be compared
  double gzip = 0;             ///< bits per byte
  std::vector<double> orders;  ///< bits per token of the count models of order 0, 1, ...
};

/// Writes report.html of a run folder.
///
/// Reads metrics.json, config.toml, curve.tgm, trace.json and log of the folder, and the
/// corpus if it has not changed since the run. The end of the page names every part that
/// could not be read.
/// @error{not_found, the folder or its metrics.json does not exist}
/// @error{corrupt, metrics.json is not a JSON object}
/// @error{no_space, io, the page cannot be written}
[[nodiscard]] result<written_report> write_report(const std::string& folder);

}  // namespace weir::tools
