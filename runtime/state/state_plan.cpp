// SPDX-License-Identifier: Apache-2.0
/// @file
/// Places of tiles in parts, and the comparison of states.
///
/// The plan of a state follows from its items and the number of ranks alone, so a
/// resumed run computes the plan of the save again and the manifest need not list tiles.
#include "state/state_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace weir::runtime {
namespace {

/// Returns the number of tiles along a dimension. `d` is the dimension.
std::int64_t tiles_along(const item_description& item, std::size_t d) {
  return (item.shape[d] + item.tile[d] - 1) / item.tile[d];
}
/// Returns the extent of a tile in a dimension; the last one may be smaller.
std::int64_t tile_extent(const item_description& item, std::size_t d,
                         std::int64_t number) {
  return std::min(item.tile[d], item.shape[d] - number * item.tile[d]);
}

}  // namespace

/// For errors, such as "\"w\": float32 [4, 8] in tiles [2, 8]".
std::string describe_item(const item_description& item) {
  const dtype_info& type = info_of(item.type);
  std::string text = fmt::format("\"{}\": {} [{}]", item.name,
                                 type.tensogram.empty() ? type.tessera : type.tensogram,
                                 fmt::join(item.shape, ", "));
  return item.tile.empty()
             ? text + " on all ranks"
             : fmt::format("{} in tiles [{}]", text, fmt::join(item.tile, ", "));
}

/// 0 for an item that all ranks have.
std::int64_t count_tiles(const item_description& item) {
  std::int64_t count = item.tile.empty() ? 0 : 1;
  for (std::size_t d = 0; d < item.tile.size(); ++d) {
    count *= tiles_along(item, d);
  }
  return count;
}

/// Tiles are numbered in row-major order. Returns a view into `whole`.
result<tensor> select_tile(const tensor& whole, const item_description& item,
                           std::int64_t index) {
  tensor part = whole;
  // From the last dimension to the first, as the last one runs fastest.
  for (std::size_t d = item.tile.size(); d-- > 0;) {
    const std::int64_t number = index % tiles_along(item, d);
    index /= tiles_along(item, d);
    const std::int64_t first = number * item.tile[d];
    WEIR_TRY(part, part.slice(static_cast<int>(d), first,
                              first + tile_extent(item, d, number)));
  }
  return part;
}

/// Tile i of an item with n tiles belongs to rank i * ranks / n, so each rank has
/// neighbouring tiles and nearly as many as the others. Tiles lie in a part in the order
/// of the items.
state_plan plan_parts(std::span<const item_description> items, rank_id ranks) {
  state_plan plan;
  plan.parts.resize(ranks);
  for (const item_description& item : items) {
    auto& places = plan.tiles.emplace_back();
    const std::int64_t count = count_tiles(item);
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t elements = 1;
      std::int64_t rest = i;
      for (std::size_t d = item.tile.size(); d-- > 0;) {
        elements *= tile_extent(item, d, rest % tiles_along(item, d));
        rest /= tiles_along(item, d);
      }
      const auto owner = static_cast<rank_id>(i * ranks / count);
      part_plan& part = plan.parts[owner];
      const auto bytes =
          static_cast<std::uint64_t>(elements * std::int64_t{info_of(item.type).size});
      // The place: part, offset, length, and the number of the tile in its part.
      places.push_back({owner, part.tile_bytes, bytes, part.tiles});
      part.tile_bytes += bytes;
      ++part.tiles;
    }
  }
  return plan;
}

/// Names the first item that differs, with both descriptions.
result<void> compare_items(std::span<const item_description> stored,
                           std::span<const item_description> own) {
  const auto name_at = [](std::span<const item_description> all, std::size_t i) {
    return i < all.size() ? describe_item(all[i]) : std::string("no further tensor");
  };
  for (std::size_t i = 0; i < std::max(stored.size(), own.size()); ++i) {
    if (i >= stored.size() || i >= own.size() || !(stored[i] == own[i])) {
      return error(errc::config_mismatch,
                   fmt::format("cannot resume another state: expected, as in the "
                               "program, {}, found in the stored state {}",
                               name_at(own, i), name_at(stored, i)))
          .hint(
              "resume with the program and the tiles that saved the state, or use "
              "another folder");
    }
  }
  return {};
}

}  // namespace weir::runtime
