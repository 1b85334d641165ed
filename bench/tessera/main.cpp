// SPDX-License-Identifier: Apache-2.0
/// @file
/// What calls of the Tessera runtime cost, through its C interface.
#include "rows.hpp"

int main(int argc, char** argv) {
  weir::bench::program bench;
  weir::bench::add_launch_rows(bench);
  weir::bench::add_collective_rows(bench);
  return bench.run(argc, argv);
}
