// SPDX-License-Identifier: Apache-2.0
/// @file
/// report.html of a run folder: what was learned, from what, how the time went.
#pragma once

#include <string>
#include <vector>

#include "weir/base/error.hpp"

namespace weir::tools {

/// Where the page is, and what it says about other models of the same text.
struct written_report {
  std::string path;
  std::string verdict;         ///< empty: nothing could be compared
  double gzip = 0;             ///< bits per byte
  std::vector<double> orders;  ///< bits per token of the count models of order 0, 1, ...
};

/// Writes `DIR/report.html` from metrics.json, config.toml, curve.tgm, trace.json and log
/// of the folder, and from the corpus if it is still what the run read. What is missing
/// is said on the page.
/// @error{not_found, no folder or no metrics.json} @error{corrupt, metrics.json is not
/// JSON}
/// @error{no_space, io, from the file system}
[[nodiscard]] result<written_report> write_report(const std::string& folder);

}  // namespace weir::tools
