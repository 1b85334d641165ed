// SPDX-License-Identifier: Apache-2.0
/// @file
/// The kernels of the layers for processors with AVX2 and FMA.
#define WEIR_LAYER_SPACE level_v3
#include "layers/kernels/make_table.hpp"

namespace weir::models::layers::level_v3 {

const layer_kernels& layer_table() {
  static const layer_kernels table = make_layer_table("x86-64-v3");
  return table;
}

}  // namespace weir::models::layers::level_v3
