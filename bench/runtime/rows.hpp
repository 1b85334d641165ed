// SPDX-License-Identifier: Apache-2.0
/// @file
/// The groups of rows of this program.
#pragma once

#include <string>

#include "bench.hpp"

namespace weir::bench {

/// TensorMap and overlap decisions alone.
void add_map_rows(program& bench);
/// Submission and empty tasks through the whole engine.
void add_engine_rows(program& bench);
/// The same empty tasks, captured once and replayed.
void add_replay_rows(program& bench);

/// The same through OpenMP, if the compiler has it; ids begin with `prefix`.
void add_openmp_rows(program& bench, const std::string& prefix);
/// Static graphs of oneTBB, and StarPU, if they are installed.
void add_tbb_rows(program& bench);
void add_starpu_rows(program& bench);
/// The shortest tasks that keep the processors busy half of the time.
void add_granularity_rows(program& bench);

}  // namespace weir::bench
