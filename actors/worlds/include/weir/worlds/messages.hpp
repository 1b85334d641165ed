// SPDX-License-Identifier: Apache-2.0
/// @file
/// World tensors in Tensogram files: a tensor is filled from an object of a message, and
/// written as a message of one object.
/// @source{docs/ranks.md}
/// @threads{the thread that calls the world, see `world`}
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "weir/world.hpp"

namespace weir {

namespace worlds {

/// A tile of a world tensor and the rank that owns it.
struct owned_tile {
  runtime::tensor elements;    ///< view of the tile
  runtime::rank_id owner = 0;  ///< rank that runs tasks that write it
};

/// Returns the tiles of a world tensor with their owners.
template <class T, int Rank>
[[nodiscard]] std::vector<owned_tile> tiles_of(world& w, const world_tensor<T, Rank>& t) {
  std::vector<owned_tile> tiles;
  const std::int64_t ranks = w.base().ranks();
  for (const auto& box : t.tiles()) {
    tiles.push_back({t.of_tile(box).elements.bytes(),
                     static_cast<runtime::rank_id>(box.index * ranks / t.tile_count())});
  }
  return tiles;
}

/// Fills tiles of a row-major tensor, see `read_object`. Waits.
/// @error{not_found; see `read_object`, also for other codes}
[[nodiscard]] result<void> fill_tiles(runtime::world& ranks, const std::string& path,
                                      const std::string& object,
                                      const runtime::tensor& whole,
                                      std::span<const owned_tile> tiles);
/// Writes a row-major tensor, see `write_message`. Waits.
/// @error{io; see `write_message`, also for other codes}
[[nodiscard]] result<void> write_whole(runtime::world& ranks, const std::string& path,
                                       const std::string& object,
                                       const runtime::tensor& whole);

}  // namespace worlds

/// Fills a world tensor from the first object with a name in a Tensogram file, which has
/// the type and the shape of the tensor. Each rank reads the file and fills its own
/// tiles; it copies them from the mapped file if the object is uncompressed. Digests are
/// verified. All ranks call it and wait. After an error the tensor is undefined. The text
/// is that of the first rank that failed.
/// @error{not_found; the file or the object does not exist} @error{io; a rank cannot read
/// the file} @error{invalid_argument; the object has another type or shape}
/// @error{corrupt; the message is damaged} @error{hash_mismatch; an element is damaged}
template <class T, int Rank>
[[nodiscard]] result<void> read_object(world& w, const std::string& path,
                                       const std::string& object,
                                       const world_tensor<T, Rank>& t) {
  return worlds::fill_tiles(w.base(), path, object, t.all().bytes(),
                            worlds::tiles_of(w, t));
}

/// Writes a world tensor as one Tensogram message with one object, which has a digest and
/// no compression. Rank 0 gets all elements and replaces the file as a whole: a crash
/// leaves the old file or the new one. All ranks call it and wait.
/// @error{io; rank 0 cannot write the file} @error{not_found; its folder does not exist}
/// @error{invalid_argument; an element is not finite}
template <class T, int Rank>
[[nodiscard]] result<void> write_message(world& w, const std::string& path,
                                         const world_tensor<T, Rank>& t,
                                         const std::string& object = "tensor") {
  return worlds::write_whole(w.base(), path, object, t.all().bytes());
}

}  // namespace weir
