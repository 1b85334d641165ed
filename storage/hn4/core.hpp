// SPDX-License-Identifier: Apache-2.0
/// @file
/// What an open volume holds in memory, and what its parts do for each other.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "disk.hpp"
#include "weir/storage/block_device.hpp"
#include "weir/storage/hn4.hpp"

namespace weir::storage::hn4 {

/// One bit per block, 1 = allocated, as on disk. @source{HN4 on-disk format, 1.7}
struct block_bits {
  byte_vector bits;
  /// Nothing is known (PICO): every block counts as allocated.
  bool blind = false;

  [[nodiscard]] bool test(std::uint64_t block) const noexcept {
    return blind || marked(block);
  }
  /// What the bitmap says, also where it is not to be believed.
  [[nodiscard]] bool marked(std::uint64_t block) const noexcept {
    const auto i = static_cast<std::size_t>(block / 8);
    return i < bits.size() && (static_cast<unsigned>(bits[i]) >> (block % 8) & 1U) != 0;
  }
  void set(std::uint64_t block) noexcept {
    bits[static_cast<std::size_t>(block / 8)] |=
        static_cast<std::byte>(1U << (block % 8));
  }
  void clear(std::uint64_t block) noexcept {
    bits[static_cast<std::size_t>(block / 8)] &=
        ~static_cast<std::byte>(1U << (block % 8));
  }
  void set_range(std::uint64_t first, std::uint64_t end) noexcept {
    for (end = std::min<std::uint64_t>(end, bits.size() * 8); first < end; ++first) {
      set(first);
    }
  }
};

/// A directory entry and the slot it stands in.
struct entry {
  anchor a;
  std::uint64_t slot = 0;
};

/// What a PICO volume keeps on disk for its bits, and back.
[[nodiscard]] byte_vector from_armored(bytes_view region, std::uint64_t blocks);
[[nodiscard]] byte_vector to_armored(const block_bits& bits, std::size_t region_bytes);

struct mount_options {
  device_mode mode = device_mode::read_only;
  /// Accept and refuse what the reference implementation does.
  bool strict = false;
  /// Refuse nothing that can be looked at: for checks.
  bool examine = false;
};

struct loss_traces;

/// What killed verbs left to do. An object that may write does it before anything else;
/// its `entries` and `bits` are already what they will be then.
struct unfinished_work {
  std::vector<entry> live;    ///< announced entries of stores that count, and grown ones
  std::vector<entry> ended;   ///< tombstones for what no reader counts
  std::vector<entry> graves;  ///< tombstones for graves: the last thing of a removal
};

/// Everything known about an open volume.
struct core {
  std::shared_ptr<block_device> device;
  bool writable = false;
  bool strict = false;
  bool examine = false;
  superblock sb;
  std::uint64_t elected_at = 0;  ///< byte of the copy that counts
  std::uint32_t state = 0;       ///< that of the superblock, and PANIC for a bad epoch
  hn4_geometry geometry;
  address_space space;
  /// The volume was not closed cleanly: cleared bits may be stale, so a block that proves
  /// itself counts.
  bool unclean = false;
  /// Why the reference would refuse to write, empty if it would not.
  std::string read_only_reason;
  bool recoverable = true;  ///< nothing else is wrong than what `recover` mends
  std::shared_ptr<const block_bits> bits;
  /// Where the object may write: the bits that the device holds.
  std::shared_ptr<const block_bits> bits_on_device;
  std::optional<unfinished_work> unfinished;
  mutable std::vector<entry> entries;  ///< slots in use with a good checksum, by slot
  mutable std::vector<entry> damaged;  ///< slots in use with a bad one
  std::vector<std::string> warnings;
  std::shared_ptr<block_device> index_file;
  bytes_view index;  ///< the index beside the image, where it counts
  /// Reads the directory if an index made that unnecessary at open.
  [[nodiscard]] result<void> need_directory() const;
  mutable std::mutex directory_mutex;
  mutable bool directory_read = false;
  /// The damaged entry in a slot, if there is one.
  [[nodiscard]] const entry* damaged_in(std::uint64_t slot) const;
  /// The traces of lost entries, found out once. @error{io}
  [[nodiscard]] result<std::shared_ptr<const hn4::loss_traces>> loss_traces() const;
  mutable std::shared_ptr<const hn4::loss_traces> traces;

  /// The bits as the reference sees them, found out once.
  [[nodiscard]] std::shared_ptr<const block_bits> strict_bits() const;
  mutable std::once_flag rebuilt_once;
  mutable std::shared_ptr<const block_bits> rebuilt;

  [[nodiscard]] std::uint64_t slots() const noexcept {
    return (geometry.bitmap - geometry.cortex) / anchor_bytes;
  }
  [[nodiscard]] std::uint64_t slot_offset(std::uint64_t slot) const noexcept {
    return geometry.cortex + slot * anchor_bytes;
  }
  /// "file:offset (what)"
  [[nodiscard]] std::string place(std::uint64_t offset, const std::string& what) const;
};

/// Elects a superblock.
[[nodiscard]] result<void> vote(core& c);
/// Reads superblocks, epoch, bitmap and directory.
[[nodiscard]] result<std::shared_ptr<core>> mount(std::shared_ptr<block_device> device,
                                                  const mount_options& options = {});
/// Makes a volume that a crash left dirty, or whose epoch entry is bad, clean again:
/// bitmap, epoch entry and superblocks are written. Adds to the warnings what was done.
[[nodiscard]] result<void> recover(core& c);
/// The bits that the reference holds in memory after opening an unclean volume.
/// @source{HN4 on-disk format, 1.8}
[[nodiscard]] std::shared_ptr<const block_bits> rebuilt_bits(const core& c);
/// Blocks that never hold data: everything but the data region, and the superblock copies
/// inside it.
void reserve_metadata(const hn4_geometry& g, block_bits& bits);

/// Blocks that a shard of so many bytes takes.
[[nodiscard]] constexpr std::uint64_t blocks_for(const hn4_geometry& g,
                                                 std::uint64_t bytes) noexcept {
  return bytes / g.payload + (bytes % g.payload != 0 ? 1 : 0);
}
/// One shard as a stream needs it.
struct shard_source {
  trajectory path;
  anchor a;
  std::uint64_t slot = 0;
};

/// What reads of one stream had to do to get at their bytes.
/// @threads{safe}
class recovery_log {
 public:
  void add(hn4_recovery_kind kind, std::size_t shard, std::uint64_t block);
  [[nodiscard]] std::vector<hn4_recovery> all() const;

 private:
  static constexpr std::size_t most_blocks = 65536;
  mutable std::mutex mutex_;
  std::map<std::pair<std::size_t, hn4_recovery_kind>, std::set<std::uint64_t>> seen_;
};

/// What a stream holds; independent of the volume object.
struct stream_map {
  std::shared_ptr<block_device> device;
  std::shared_ptr<const block_bits> bits;
  hn4_geometry geometry;
  address_space space;
  bool strict = false;
  bool unclean = false;
  hn4_holes holes = hn4_holes::error;
  std::string tag;
  std::uint64_t size = 0;
  std::vector<hn4_shard> shards;
  std::vector<shard_source> sources;
  std::vector<std::string> warnings;
  std::shared_ptr<recovery_log> log = std::make_shared<recovery_log>();
};
[[nodiscard]] result<std::shared_ptr<const stream_map>> map_stream(
    const core& c, std::string_view tag, const hn4_stream_options& options);
/// Whether a shard that begins at `offset` of its stream can be part of it.
/// @error{as hn4_volume::stream}
[[nodiscard]] result<void> check_shard(const core& c, std::string_view tag,
                                       std::size_t index, const entry& e,
                                       std::uint64_t offset, bool strict);

[[nodiscard]] result<void> put_stream(core& c, std::string_view tag, bytes_view source,
                                      const hn4_put_options& options);
/// Replaces a tag if every block of the new shards lies below `end`; says whether it did.
[[nodiscard]] result<bool> put_below(core& c, std::string_view tag, bytes_view source,
                                     const hn4_put_options& options, std::uint64_t end);
/// All copies, North last. The epoch ring and everything else must be durable before.
[[nodiscard]] result<void> write_superblocks(block_device& device, const superblock& sb);
[[nodiscard]] result<void> remove_tag(core& c, std::string_view tag);

}  // namespace weir::storage::hn4
