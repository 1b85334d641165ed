// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks a whole HN4 volume, and copies what can be read of it to a new one.
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

/// Something that a check has found.
struct hn4_finding {
  std::string kind;          ///< fixed word such as `superblock_copy` or `payload`
  std::uint64_t offset = 0;  ///< byte of the volume that it concerns
  std::string text;          ///< description for people
};

/// Bytes of a tag that no reader can get. If shards are missing, the range refers to the
/// stream that `recover` leaves.
struct hn4_lost_range {
  std::string tag;                      ///< name of the tag
  std::optional<std::uint64_t> offset;  ///< offset in the stream; unset if it is unknown
  std::optional<std::uint64_t> bytes;   ///< length; unset if it is unknown
};

/// Use of a cell of the map. A cell shows the highest value among its blocks.
enum class hn4_use : std::uint8_t {
  free,      ///< not allocated
  reserved,  ///< the volume's own structures
  data,      ///< a block of a live shard
  unowned,   ///< allocated, but part of no shard
  damaged,   ///< a block of a live shard that fails its checks
};

/// Result of a check.
struct hn4_check_report {
  std::vector<hn4_finding> findings;  ///< faults
  std::vector<hn4_finding> notes;     ///< unusual but allowed properties
  std::vector<hn4_lost_range> lost;   ///< bytes that no reader can get
  hn4_geometry geometry;              ///< layout of the volume
  std::string label;                  ///< label of the volume
  std::uint64_t tags = 0;             ///< tags that `hn4_volume::tags` lists
  std::uint64_t shards = 0;           ///< live shards
  std::uint64_t blocks = 0;           ///< blocks of live shards
  std::uint64_t compressed = 0;       ///< compressed blocks among them
  std::uint64_t bytes = 0;            ///< bytes of live shards
  std::vector<hn4_use> map;       ///< the volume in cells of equal size, from its start
  std::uint64_t cell_blocks = 0;  ///< blocks per cell
};

/// Checks superblocks, epoch, log, quality mask, bitmap, directory and every block of
/// every live shard.
///
/// The volume is only read. Holes of the device are skipped. Faults are findings, not
/// errors.
/// @error{corrupt, no superblock is valid or the layout contradicts itself}
/// @error{io, the device reports an error}
/// @threads{safe to call concurrently}
/// @source{HN4 on-disk format, section 8}
[[nodiscard]] result<hn4_check_report> hn4_check(std::unique_ptr<block_device> device);

/// Result of `hn4_repair` for one tag.
struct hn4_saved_tag {
  std::string name;         ///< name of the tag
  std::uint64_t bytes = 0;  ///< length of its stream
  std::string problem;      ///< why the tag is not in the new volume; empty if it is
};
/// Makes a new volume of the same kind and stores every tag in it that can be read
/// completely.
///
/// `from` is only read. It may be truncated, locked or half written. Tags keep their
/// number of shards and their compression.
/// @error{already_exists, there is a file at `to`}
/// @error{corrupt, no superblock of `from` is valid or its layout contradicts itself}
/// @error{no_space, the file system is full}
/// @error{io, a read or a write failed}
/// @threads{safe to call concurrently for different files `to`}
[[nodiscard]] result<std::vector<hn4_saved_tag>> hn4_repair(const std::string& from,
                                                            const std::string& to);

}  // namespace weir::storage
