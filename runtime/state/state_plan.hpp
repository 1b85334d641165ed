// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a state consists of, and where each tile of it lies in the parts of the ranks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weir/runtime/tensor.hpp"
#include "weir/runtime/transport.hpp"

namespace weir::runtime {

/// Name, type and cut of a tensor of a state.
struct item_description {
  std::string name;
  dtype type = dtype::fp64;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> tile;  ///< extents of a tile; empty: a number of all ranks
  friend bool operator==(const item_description&, const item_description&) = default;
};

/// Returns the words of an item for messages, such as `"depth": float64 [8, 8] in tiles
/// [4, 8]`.
[[nodiscard]] std::string describe_item(const item_description& item);
/// Returns the number of tiles; 0 for a number that all ranks have.
[[nodiscard]] std::int64_t count_tiles(const item_description& item);
/// Returns the elements of a tile, in the order of `world_tensor::tiles`.
[[nodiscard]] result<tensor> select_tile(const tensor& whole,
                                         const item_description& item,
                                         std::int64_t index);

/// Place of a tile in the parts.
struct tile_place {
  rank_id part = 0;          ///< rank that owns the tile
  std::uint64_t offset = 0;  ///< first byte in the part
  std::uint64_t bytes = 0;   ///< size
  std::size_t slot = 0;      ///< number among the tiles of the part
};
/// Content of the part of a rank: tiles, and behind them a digest of each.
struct part_plan {
  std::uint64_t tile_bytes = 0;  ///< size of all tiles
  std::size_t tiles = 0;         ///< number of tiles
  /// Returns the size of the file.
  [[nodiscard]] std::uint64_t file_bytes() const noexcept {
    return tile_bytes + 8 * std::uint64_t{tiles};
  }
};
/// Places of all tiles for a number of ranks. It depends on the items and the number of
/// ranks alone.
struct state_plan {
  std::vector<std::vector<tile_place>> tiles;  ///< by item and number of the tile
  std::vector<part_plan> parts;                ///< by rank
};
/// Returns the places of all tiles.
[[nodiscard]] state_plan plan_parts(std::span<const item_description> items,
                                    rank_id ranks);

/// Compares the items of a stored state with those of a program.
/// @error{config_mismatch; the text has the first difference, from both sides}
[[nodiscard]] result<void> compare_items(std::span<const item_description> stored,
                                         std::span<const item_description> own);

}  // namespace weir::runtime
