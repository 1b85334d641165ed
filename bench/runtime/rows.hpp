// SPDX-License-Identifier: Apache-2.0
/// @file
/// The functions that add the groups of rows of this program.
#pragma once

#include <string>

#include "bench.hpp"

namespace weir::bench {

/// Adds the rows about the dependency map and overlap decisions alone.
void add_map_rows(program& bench);
/// Adds the rows about submission and empty tasks through the whole engine.
void add_engine_rows(program& bench);
/// Adds the rows about the same empty tasks, captured once and replayed.
void add_replay_rows(program& bench);

/// Adds the rows about OpenMP, if the compiler has it; ids begin with `prefix`.
void add_openmp_rows(program& bench, const std::string& prefix);
/// Adds the rows about static graphs of oneTBB, if it is installed.
void add_tbb_rows(program& bench);
/// Adds the rows about StarPU, if it is installed.
void add_starpu_rows(program& bench);
/// Adds the rows about the shortest tasks that keep the processors busy half of the time.
void add_granularity_rows(program& bench);

}  // namespace weir::bench
