// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sources from which tasks of a world fill tiles, and the rows of a tile in them.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "weir/worlds/messages.hpp"

namespace weir::worlds {

/// Elements in row-major order, from which tiles are filled.
/// @threads{safe to call concurrently}
class tile_source {
 public:
  virtual ~tile_source() = default;
  /// Copies the elements of a tile to their place.
  [[nodiscard]] virtual result<void> fill(const runtime::tensor& tile) = 0;
};

/// Bytes without a gap in a storage.
struct byte_block {
  std::int64_t first = 0;  ///< offset in the storage
  std::int64_t bytes = 0;
};
/// Returns the blocks of a tile of a row-major tensor, ascending, as few as possible.
[[nodiscard]] std::vector<byte_block> blocks_of(const runtime::tensor& tile);

/// Submits a task for each tile and waits.
[[nodiscard]] result<void> fill_from(runtime::world& ranks,
                                     const std::shared_ptr<tile_source>& source,
                                     std::span<const owned_tile> tiles);

}  // namespace weir::worlds
