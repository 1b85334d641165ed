// SPDX-License-Identifier: Apache-2.0
/// @file
/// Lists every way to write the numbers 1 to `max_ranks` as a product along four axes.
#pragma once

#include <vector>

#include "weir/collective/mesh.hpp"

namespace weir::collective::test {

/// Returns the axes of all meshes with up to `max_ranks` devices.
inline std::vector<mesh_axes> all_meshes(int max_ranks) {
  std::vector<mesh_axes> all;
  for (int tp = 1; tp <= max_ranks; ++tp) {
    for (int pp = 1; tp * pp <= max_ranks; ++pp) {
      for (int dp = 1; tp * pp * dp <= max_ranks; ++dp) {
        for (int ep = 1; tp * pp * dp * ep <= max_ranks; ++ep) {
          all.push_back({tp, pp, dp, ep});
        }
      }
    }
  }
  return all;
}

/// Returns the number of devices; an axis of size 0 counts as 1.
inline int devices_of(const mesh_axes& axes) {
  const auto size = [](int n) { return n == 0 ? 1 : n; };
  return size(axes.tp) * size(axes.pp) * size(axes.dp) * size(axes.ep);
}

inline mesh_shape shape_of(const mesh_axes& axes) {
  return or_throw(mesh_shape::make(devices_of(axes), axes));
}

}  // namespace weir::collective::test
