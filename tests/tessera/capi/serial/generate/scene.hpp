// SPDX-License-Identifier: Apache-2.0
/// @file
/// Generates the objects that the operations of a random program use: meshes, memory and
/// streams.
#pragma once

#include "serial/generate/generator.hpp"

namespace weir::test::serial {

/// Returns a program that has objects but no operations.
[[nodiscard]] program random_scene(dice& d, const features& with);

/// Returns a random number from 0 to n - 1.
inline int pick(dice& d, int n) {
  return static_cast<int>(d.in(0, n - 1));
}

}  // namespace weir::test::serial
