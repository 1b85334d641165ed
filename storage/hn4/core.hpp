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
  mutable std::vector<entry> entries;  ///< slots in use with a good checksum, by slot
  mutable std::vector<entry> damaged;  ///< slots in use with a bad one
  std::vector<std::string> warnings;
  std::shared_ptr<block_device> index_file;
  bytes_view index;  ///< the index beside the image, where it counts
  /// Reads the directory if an index made that unnecessary at open.
  [[nodiscard]] result<void> need_directory() const;
  mutable std::mutex directory_mutex;
  mutable bool directory_read = false;

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
/// Takes the index beside the image if it belongs to it.
[[nodiscard]] bool load_index(core& c);
/// The live entries of a tag through the index, each verified; nothing if the index does
/// not know all of them for certain.
[[nodiscard]] std::optional<std::vector<entry>> look_up_index(const core& c,
                                                              std::string_view tag);
[[nodiscard]] result<void> write_index(const core& c);
/// Blocks that never hold data: everything but the data region, and the superblock copies
/// inside it.
void reserve_metadata(const hn4_geometry& g, block_bits& bits);

/// An entry's full name; `whole` is false if the chain that holds it contradicts the
/// entry's filter.
struct full_name {
  std::string text;
  bool whole = true;
  std::uint64_t block = 0;  ///< byte offset of the last chain block read, 0 if none
};
[[nodiscard]] result<full_name> name_of_entry(const core& c, const anchor& a);

/// The entries that make up a tag, in no particular order.
struct selection {
  std::vector<entry> shards;
  std::vector<std::string> warnings;
};
/// @error{as hn4_volume::stream}
/// `recover`: a damaged entry that may belong to the tag is a warning, not an error.
[[nodiscard]] result<selection> select_tag(const core& c, std::string_view tag,
                                           bool recover);
/// All live entries under a name, complete or not.
[[nodiscard]] result<std::vector<entry>> live_entries(const core& c,
                                                      std::string_view tag);
[[nodiscard]] result<std::vector<hn4_tag>> list_tags(const core& c);
/// Whether the bits of `mask` are all set in `filter`.
[[nodiscard]] constexpr bool covers(std::uint64_t filter, std::uint64_t mask) noexcept {
  return (filter & mask) == mask;
}
/// Blocks that a shard of so many bytes takes.
[[nodiscard]] constexpr std::uint64_t blocks_for(const hn4_geometry& g,
                                                 std::uint64_t bytes) noexcept {
  return bytes / g.payload + (bytes % g.payload != 0 ? 1 : 0);
}
/// Picks, among the live entries of one name, those that make up its stream.
[[nodiscard]] result<selection> choose_shards(const core& c, std::string_view tag,
                                              std::vector<entry> matches);
/// Index of a removal: all shards of `tag` up to this identity are gone.
[[nodiscard]] result<std::optional<hn4_id>> grave_of(const core& c, std::string_view tag);

/// What the reference finds under a tag, in its order.
[[nodiscard]] result<selection> select_strictly(const core& c, std::string_view tag);

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

[[nodiscard]] result<void> put_stream(core& c, std::string_view tag, bytes_view source,
                                      const hn4_put_options& options);
/// Replaces a tag if every block of the new shards lies below `end`; says whether it did.
[[nodiscard]] result<bool> put_below(core& c, std::string_view tag, bytes_view source,
                                     const hn4_put_options& options, std::uint64_t end);
/// All copies, North last. The epoch ring and everything else must be durable before.
[[nodiscard]] result<void> write_superblocks(block_device& device, const superblock& sb);
[[nodiscard]] result<void> remove_tag(core& c, std::string_view tag);

}  // namespace weir::storage::hn4
