// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about pipelines that actors run.
#include <string_view>

#include "rows.hpp"

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == weir::bench::memory_argument) {
    return weir::bench::memory_child();
  }
  weir::bench::program bench;
  weir::bench::add_crossing_rows(bench);
  weir::bench::add_checkpoint_rows(bench);
  weir::bench::add_memory_rows(bench);
  weir::bench::add_python_rows(bench);
  return bench.run(argc, argv);
}
