// SPDX-License-Identifier: Apache-2.0
/// @file
/// Compiles the kernels of the layers with vectors of 16 lanes for the baseline of the
/// architecture.
#include "models/layers/sixteen_lanes.hpp"

#define WEIR_LAYER_SIXTEEN_LANES
#define WEIR_LAYER_SPACE sixteen_lanes
#include "layers/kernels/make_table.hpp"

namespace weir::test {

const models::layers::layer_kernels& sixteen_lane_table() {
  static const models::layers::layer_kernels table =
      models::layers::sixteen_lanes::make_layer_table("16 emulated lanes");
  return table;
}

}  // namespace weir::test
