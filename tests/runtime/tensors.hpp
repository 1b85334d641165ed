// SPDX-License-Identifier: Apache-2.0
/// @file
/// Helpers that make tensors for tests of the engine.
#pragma once

#include <array>

#include "weir/runtime/tensor.hpp"

namespace weir::runtime {

/// Returns a one-dimensional tensor of all bytes of `s`.
inline tensor bytes_of(const storage& s) {
  const std::array<std::int64_t, 1> shape{s.size};
  return or_throw(tensor::over(s, dtype::uint8, shape));
}

}  // namespace weir::runtime
