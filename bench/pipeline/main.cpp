// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about pipelines on one thread, without actors.
#include "rows.hpp"

int main(int argc, char** argv) {
  weir::bench::program bench;
  weir::bench::add_hop_rows(bench);
  weir::bench::add_work_rows(bench);
  weir::bench::add_tbb_rows(bench);
  return bench.run(argc, argv);
}
