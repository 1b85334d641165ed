// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about transformers and the products in them.
#include "models/rows.hpp"

int main(int argc, char** argv) {
  weir::bench::program bench;
  weir::bench::add_llama_rows(bench);
  weir::bench::add_minilm_rows(bench);
  weir::bench::add_panel_rows(bench);
  return bench.run(argc, argv);
}
