// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checking an HN4 volume whole, and saving what can be read of it into a new one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/storage/block_device.hpp"
#include "weir/storage/hn4.hpp"

namespace weir::storage {

struct hn4_finding {
  std::string kind;          ///< e.g. `superblock_copy`, `payload`; fixed words
  std::uint64_t offset = 0;  ///< byte of the volume
  std::string text;
};

/// Bytes of a tag that no reader can get: of its stream, or of what `recover` leaves of
/// it where shards are missing.
struct hn4_lost_range {
  std::string tag;
  std::optional<std::uint64_t> offset;  ///< unset: nobody knows where they are
  std::optional<std::uint64_t> bytes;   ///< unset: nobody knows how many they are
};

/// What a cell of the map is mostly used for; the worst of what lies in it wins.
enum class hn4_use : std::uint8_t { free, reserved, data, unowned, damaged };

struct hn4_check_report {
  std::vector<hn4_finding> findings;  ///< what is wrong
  std::vector<hn4_finding> notes;     ///< what is unusual and allowed
  std::vector<hn4_lost_range> lost;
  hn4_geometry geometry;
  std::string label;
  std::uint64_t tags = 0;    ///< that can be opened: those that `hn4_volume::tags` lists
  std::uint64_t shards = 0;  ///< live ones
  std::uint64_t blocks = 0, compressed = 0;  ///< of live shards
  std::uint64_t bytes = 0;
  std::vector<hn4_use> map;       ///< the volume in cells of equal size, from its start
  std::uint64_t cell_blocks = 0;  ///< blocks per cell
};

/// Looks at superblocks, epoch, log, quality mask, bitmap, directory, and every block of
/// every live shard. Holes of the device are skipped.
/// @error{as hn4_volume::open where no superblock is valid or the layout makes no sense;
/// io}
/// @source{HN4 on-disk format, section 8}
[[nodiscard]] result<hn4_check_report> hn4_check(std::unique_ptr<block_device> device);

struct hn4_saved_tag {
  std::string name;
  std::uint64_t bytes = 0;
  std::string problem;  ///< why it is not in the new volume; empty if it is
};
/// Makes a volume like that at `from` and stores every tag in it that can be read whole.
/// `from` is only read, and may be cut, locked or half written. Tags keep their number of
/// shards and their compression.
/// @error{already_exists, `to`; as hn4_volume::open_damaged; as put}
[[nodiscard]] result<std::vector<hn4_saved_tag>> hn4_repair(const std::string& from,
                                                            const std::string& to);

}  // namespace weir::storage
