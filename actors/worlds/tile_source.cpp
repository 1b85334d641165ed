// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tasks that fill tiles from a source, and the blocks of a tile.
///
/// Tasks of one rank read their tiles by `tile_source::fill`, which a file and a volume
/// implement in different ways.
#include "tile_source.hpp"

#include <array>
#include <utility>

namespace weir::worlds {
namespace {

/// Adds the contiguous blocks of the dimensions from `dimension` on. Rows that follow
/// each other without a gap are joined, so a tile that is a whole tensor has one block.
/// @param first  Offset of the first element in the storage. @units{bytes}
void add_rows(const runtime::tensor& tile, std::int64_t first, std::size_t dimension,
              std::vector<byte_block>& out) {
  const auto shape = tile.shape();
  if (dimension + 1 < shape.size()) {
    for (std::int64_t i = 0; i < shape[dimension]; ++i) {
      add_rows(tile, first + i * tile.strides()[dimension], dimension + 1, out);
    }
    return;
  }
  const std::int64_t bytes =
      (shape.empty() ? 1 : shape.back()) * std::int64_t{info_of(tile.type()).size};
  if (!out.empty() && out.back().first + out.back().bytes == first) {
    out.back().bytes += bytes;
  } else if (bytes != 0) {
    out.push_back({first, bytes});
  }
}

}  // namespace

std::vector<byte_block> blocks_of(const runtime::tensor& tile) {
  std::vector<byte_block> out;
  add_rows(tile, tile.offset(), 0, out);
  return out;
}

/// Submits a task for each tile to its owner and waits for all of them. The job keeps
/// source and tiles alive until the last task has ended.
result<void> fill_from(runtime::world& ranks, const std::shared_ptr<tile_source>& source,
                       std::span<const owned_tile> tiles) {
  using job = std::pair<std::shared_ptr<tile_source>, std::vector<owned_tile>>;
  const auto own = std::make_shared<const job>(
      source, std::vector<owned_tile>(tiles.begin(), tiles.end()));
  for (const owned_tile& tile : own->second) {
    WEIR_CHECK(ranks.submit(
        {tile.owner, 1}, "read tile", std::array{runtime::writes(tile.elements)},
        [from = source.get(), to = &tile.elements](const runtime::task_context&) {
          return from->fill(*to);
        },
        own));
  }
  return ranks.wait();
}

}  // namespace weir::worlds
