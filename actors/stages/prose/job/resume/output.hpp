// SPDX-License-Identifier: Apache-2.0
/// @file
/// The output of predictions in a run that is resumed.
#pragma once

#include <vector>

#include "weir/actors/run.hpp"

namespace weir::actors {

/// Gives an image the sink of predictions that the configuration asks for. If the run had
/// none, or another file, the file begins empty; if it has none from now on, the parts of
/// the sink are removed.
void replace_output(flow::image& image, const std::vector<storage::run_change>& changes,
                    const run_config& config);

}  // namespace weir::actors
