// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the operations of a random program work on: meshes, memory and streams.
#pragma once

#include "serial/generator.hpp"

namespace weir::test::serial {

/// A program without operations.
[[nodiscard]] program random_scene(dice& d, const features& with);

inline int pick(dice& d, int n) {
  return static_cast<int>(d.in(0, n - 1));
}

}  // namespace weir::test::serial
