// SPDX-License-Identifier: Apache-2.0
/// @file
/// The functions that add the groups of rows of this program.
#pragma once

#include "bench.hpp"

namespace weir::bench {

/// Adds the rows about stages without work: the cost of an item and of a further stage.
void add_hop_rows(program& bench);
/// Adds the rows about stages whose tasks work: the rate, and tasks of several stages at
/// the same time.
void add_work_rows(program& bench);
/// Adds the rows of oneTBB's pipelines and flow graphs, if it is installed.
void add_tbb_rows(program& bench);

}  // namespace weir::bench
