// SPDX-License-Identifier: Apache-2.0
/// @file
/// The kernels of the layers with vectors of 16 lanes on every machine.
#pragma once

#include "layers/kernels/table.hpp"

namespace weir::test {

/// Returns the kernels in the order of operations of AVX-512. Their lanes are computed
/// one by one, so they run on every processor.
[[nodiscard]] const models::layers::layer_kernels& sixteen_lane_table();

}  // namespace weir::test
