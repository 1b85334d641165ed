// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about the cost of a task: look-ups, overlap decisions, submission, and empty
/// tasks that pass through the whole engine.
#include "rows.hpp"

int main(int argc, char** argv) {
  weir::bench::program bench;
  weir::bench::add_map_rows(bench);
  weir::bench::add_engine_rows(bench);
  weir::bench::add_replay_rows(bench);
  weir::bench::add_openmp_rows(bench, "openmp");
  weir::bench::add_tbb_rows(bench);
  weir::bench::add_starpu_rows(bench);
  weir::bench::add_granularity_rows(bench);
  return bench.run(argc, argv);
}
