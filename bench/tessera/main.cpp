// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about the cost of calls of the Tessera runtime, through its C interface.
#include "rows.hpp"

int main(int argc, char** argv) {
  weir::bench::program bench;
  weir::bench::add_launch_rows(bench);
  weir::bench::add_collective_rows(bench);
  return bench.run(argc, argv);
}
