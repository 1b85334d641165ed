// SPDX-License-Identifier: Apache-2.0
/// @file
/// World tensors from HN4 volumes: each rank reads the blocks of its own tiles.
/// @source{docs/ranks.md}
/// @threads{the thread that calls the world, see `world`}
#pragma once

#include <string>

#include "weir/worlds/messages.hpp"

namespace weir {

namespace worlds {

/// Fills tiles of a row-major tensor from a volume, see `read_volume`. Waits.
/// @error{not_found; see `read_volume`, also for other codes}
[[nodiscard]] result<void> fill_tiles_from_volume(runtime::world& ranks,
                                                  const std::string& path,
                                                  const std::string& name,
                                                  const runtime::tensor& whole,
                                                  std::span<const owned_tile> tiles);

}  // namespace worlds

/// Fills a world tensor from the tensor with a name in an HN4 volume, which has the type
/// and the shape of it. Each rank reads the bytes of its own tiles alone; the checksums
/// of the blocks that have them are verified. All ranks call it and wait. After an error
/// the tensor is undefined.
/// @error{not_found; the volume or the tensor does not exist} @error{io; a rank cannot
/// read the volume} @error{invalid_argument; the tensor has another type or shape}
/// @error{torn; the volume ends early} @error{hash_mismatch; a block is damaged}
template <class T, int Rank>
[[nodiscard]] result<void> read_volume(world& w, const std::string& path,
                                       const std::string& name,
                                       const world_tensor<T, Rank>& t) {
  return worlds::fill_tiles_from_volume(w.base(), path, name, t.all().bytes(),
                                        worlds::tiles_of(w, t));
}

}  // namespace weir
