// SPDX-License-Identifier: Apache-2.0
/// @file
/// The kernels of the layers, compiled by one compiler for one instruction set. The build
/// defines `WEIR_LAYER_SPACE`, a name for both, and `WEIR_PANEL_KERNELS`, the name of the
/// function that returns the table.
#include "layers/kernels/make_table.hpp"

extern "C" const weir::models::layers::layer_kernels* WEIR_PANEL_KERNELS() {
  static const weir::models::layers::layer_kernels table =
      weir::models::layers::WEIR_LAYER_SPACE::make_layer_table("bench");
  return &table;
}
