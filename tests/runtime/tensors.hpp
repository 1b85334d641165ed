// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tensors that tests of the engine make.
#pragma once

#include <array>

#include "weir/runtime/tensor.hpp"

namespace weir::runtime {

/// All bytes of `s`, one dimension.
inline tensor bytes_of(const storage& s) {
  const std::array<std::int64_t, 1> shape{s.size};
  return or_throw(tensor::over(s, dtype::uint8, shape));
}

}  // namespace weir::runtime
