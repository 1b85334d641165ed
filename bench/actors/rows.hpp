// SPDX-License-Identifier: Apache-2.0
/// @file
/// The functions that add the groups of rows of this program.
#pragma once

#include "bench.hpp"

namespace weir::bench {

/// Adds the rows about the way of an item from one host to another, and about progress.
void add_crossing_rows(program& bench);
/// Adds the rows about checkpoints, starts and resumed runs.
void add_checkpoint_rows(program& bench);
/// Adds the row about the memory of items.
void add_memory_rows(program& bench);
/// Adds the rows about a stage in Python.
void add_python_rows(program& bench);

/// Argument with which the program measures its own memory, see `memory_child`.
inline constexpr const char* memory_argument = "--memory-child";
/// Runs a pipeline and prints the growth of the resident memory as a share of the bound.
/// Returns the exit code.
int memory_child();

}  // namespace weir::bench
