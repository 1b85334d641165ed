// SPDX-License-Identifier: Apache-2.0
/// @file
/// The kernels of the layers for any processor: compiled for the baseline of the
/// architecture.
#define WEIR_LAYER_SPACE level_base
#include "layers/kernels/make_table.hpp"

namespace weir::models::layers::level_base {

const layer_kernels& layer_table() {
  static const layer_kernels table = make_layer_table("x86-64");
  return table;
}

}  // namespace weir::models::layers::level_base
