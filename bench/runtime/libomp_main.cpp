// SPDX-License-Identifier: Apache-2.0
/// @file
/// The rows of OpenMP with clang++ and its own runtime. They are a separate program,
/// because one process cannot contain both runtimes of OpenMP.
#include "rows.hpp"

int main(int argc, char** argv) {
  weir::bench::program bench;
  weir::bench::add_openmp_rows(bench, "libomp");
  return bench.run(argc, argv);
}
