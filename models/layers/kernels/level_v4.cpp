// SPDX-License-Identifier: Apache-2.0
/// @file
/// The kernels of the layers for processors with AVX-512.
#define WEIR_LAYER_SPACE level_v4
#include "layers/kernels/make_table.hpp"

namespace weir::models::layers::level_v4 {

const layer_kernels& layer_table() {
  static const layer_kernels table = make_layer_table("x86-64-v4");
  return table;
}

}  // namespace weir::models::layers::level_v4
