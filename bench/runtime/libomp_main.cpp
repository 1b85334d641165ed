// SPDX-License-Identifier: Apache-2.0
/// @file
/// The rows of OpenMP as clang++ and its own runtime run them: a program of its own, as
/// one process cannot have both.
#include "rows.hpp"

int main(int argc, char** argv) {
  weir::bench::program bench;
  weir::bench::add_openmp_rows(bench, "libomp");
  return bench.run(argc, argv);
}
