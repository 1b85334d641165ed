// SPDX-License-Identifier: Apache-2.0
/// @file
/// State of an open volume, and the functions by which the parts of hn4/ work together.
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

/// The bitmap of blocks: one bit per block, 1 for an allocated one, as on disk.
/// @source{HN4 on-disk format, 1.7}
struct block_bits {
  byte_vector bits;
  /// True if the bitmap cannot be trusted (profile PICO): every block then counts as
  /// allocated.
  bool blind = false;

  /// Returns whether a block counts as allocated.
  [[nodiscard]] bool test(std::uint64_t block) const noexcept {
    return blind || marked(block);
  }
  /// Returns the bit of a block, even if the bitmap is not trusted.
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

/// A directory entry and the number of the slot that holds it.
struct entry {
  anchor a;
  std::uint64_t slot = 0;
};

/// Converts the bitmap region of a PICO volume, in which each word of 64 bits has a check
/// byte, to plain bits.
[[nodiscard]] byte_vector from_armored(bytes_view region, std::uint64_t blocks);
/// Converts plain bits to the bitmap region of a PICO volume.
[[nodiscard]] byte_vector to_armored(const block_bits& bits, std::size_t region_bytes);

/// How a volume is opened.
struct mount_options {
  device_mode mode = device_mode::read_only;
  /// Accepts and refuses exactly what the reference implementation does.
  bool strict = false;
  /// Refuses nothing that can be examined; used by checks.
  bool examine = false;
};

struct loss_traces;

/// Steps of a store or a removal that a killed process has left undone. An object that
/// may write does them before its own first write; its `entries` and `bits` already have
/// the state after them.
struct unfinished_work {
  /// To become live: announced entries of stores that count, and grown ones.
  std::vector<entry> live;
  std::vector<entry> ended;  ///< to become tombstones: entries that no reader counts
  /// Graves to become tombstones, as the last step of a removal.
  std::vector<entry> graves;
};

/// An open volume in memory. Streams share parts of it and outlive it.
struct core {
  std::shared_ptr<block_device> device;
  bool writable = false;
  bool strict = false;
  bool examine = false;
  superblock sb;
  std::uint64_t elected_at = 0;  ///< byte of the superblock copy that was elected
  /// State word of the superblock; PANIC is added for a bad epoch entry.
  std::uint32_t state = 0;
  hn4_geometry geometry;
  address_space space;
  /// True if the volume was not closed cleanly. Cleared bits of the bitmap may then be
  /// outdated, so a block with correct checksums and identity counts although its bit is
  /// cleared.
  bool unclean = false;
  /// Why the reference implementation would mount the volume read-only; empty if it would
  /// not.
  std::string read_only_reason;
  bool recoverable = true;  ///< `recover` can remove all reasons to be read-only
  std::shared_ptr<const block_bits> bits;
  /// The bits that the device holds; set if the object may write.
  std::shared_ptr<const block_bits> bits_on_device;
  std::optional<unfinished_work> unfinished;
  mutable std::vector<entry> entries;  ///< slots in use with a good checksum, by slot
  mutable std::vector<entry> damaged;  ///< slots in use with a bad checksum, by slot
  std::vector<std::string> warnings;
  std::shared_ptr<block_device> index_file;
  /// Bytes of the index beside the image; empty if it does not match the image.
  bytes_view index;
  /// Reads the directory, unless that has been done. An index makes it unnecessary at
  /// open.
  [[nodiscard]] result<void> need_directory() const;
  mutable std::mutex directory_mutex;
  mutable bool directory_read = false;
  /// Returns the damaged entry in a slot, or null.
  [[nodiscard]] const entry* damaged_in(std::uint64_t slot) const;
  /// Returns the traces of lost entries; they are searched once. @error{io, a read
  /// failed}
  [[nodiscard]] result<std::shared_ptr<const hn4::loss_traces>> loss_traces() const;
  mutable std::shared_ptr<const hn4::loss_traces> traces;

  /// Returns the bits as the reference implementation would have them; computed once.
  [[nodiscard]] std::shared_ptr<const block_bits> strict_bits() const;
  mutable std::once_flag rebuilt_once;
  mutable std::shared_ptr<const block_bits> rebuilt;

  /// Returns the number of directory slots.
  [[nodiscard]] std::uint64_t slots() const noexcept {
    return (geometry.bitmap - geometry.cortex) / anchor_bytes;
  }
  /// Returns the byte at which a slot begins.
  [[nodiscard]] std::uint64_t slot_offset(std::uint64_t slot) const noexcept {
    return geometry.cortex + slot * anchor_bytes;
  }
  /// Returns "file:offset (thing)" for messages.
  [[nodiscard]] std::string place(std::uint64_t offset, const std::string& thing) const;
};

/// Chooses among the four copies of the superblock and sets the members that follow from
/// it.
[[nodiscard]] result<void> vote(core& c);
/// Opens a volume: superblocks, epoch, state, bitmap and directory. It may then finish
/// what killed processes have left.
[[nodiscard]] result<std::shared_ptr<core>> mount(std::shared_ptr<block_device> device,
                                                  const mount_options& options = {});
/// Makes a volume clean again after a crash or with a bad epoch entry: writes bitmap,
/// epoch entry and superblocks. Adds to the warnings what it has done.
[[nodiscard]] result<void> recover(core& c);
/// Returns the bits that the reference implementation holds in memory after it has opened
/// an unclean volume.
/// @source{HN4 on-disk format, 1.8}
[[nodiscard]] std::shared_ptr<const block_bits> rebuilt_bits(const core& c);
/// Sets the bits of all blocks that never hold data: those outside the data region, and
/// the superblock copies inside it.
void reserve_metadata(const hn4_geometry& g, block_bits& bits);

/// Returns the number of blocks that a shard of `bytes` bytes takes.
[[nodiscard]] constexpr std::uint64_t blocks_for(const hn4_geometry& g,
                                                 std::uint64_t bytes) noexcept {
  return bytes / g.payload + (bytes % g.payload != 0 ? 1 : 0);
}
/// A shard of a stream, as reads need it.
struct shard_source {
  trajectory path;
  anchor a;
  std::uint64_t slot = 0;
};

/// The recoveries of all reads of one stream.
/// @threads{safe to call concurrently}
class recovery_log {
 public:
  /// Notes that a block was accepted by way of recovery. Repeated notes count once.
  void add(hn4_recovery_kind kind, std::size_t shard, std::uint64_t block);
  /// Returns the recoveries, consecutive blocks joined.
  [[nodiscard]] std::vector<hn4_recovery> all() const;

 private:
  /// Blocks that are kept per shard and kind, so that a damaged volume cannot fill the
  /// memory.
  static constexpr std::size_t max_blocks = 65536;
  mutable std::mutex mutex_;
  std::map<std::pair<std::size_t, hn4_recovery_kind>, std::set<std::uint64_t>> seen_;
};

/// The blocks of one stream that views have verified. A view of a verified block needs no
/// further checksum, so that many tensors of one block of 64 MiB cost one pass over it.
/// @threads{safe to call concurrently}
class verified_blocks {
 public:
  /// Returns whether a block was verified.
  [[nodiscard]] bool has(std::size_t shard, std::uint64_t block) const {
    const std::scoped_lock lock(mutex_);
    return blocks_.contains({shard, block});
  }
  /// Notes that a block was verified.
  void add(std::size_t shard, std::uint64_t block) {
    const std::scoped_lock lock(mutex_);
    blocks_.insert({shard, block});
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::pair<std::size_t, std::uint64_t>> blocks_;
};

/// The contents of a stream. It keeps the device open after the volume object is gone.
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
  std::shared_ptr<verified_blocks> verified = std::make_shared<verified_blocks>();
};
/// Maps a tag to blocks, with the errors of `hn4_volume::stream`.
[[nodiscard]] result<std::shared_ptr<const stream_map>> map_stream(
    const core& c, std::string_view tag, const hn4_stream_options& options);
/// Checks that a shard which begins at `offset` of its stream can be part of it, with the
/// errors of `hn4_volume::stream`.
[[nodiscard]] result<void> check_shard(const core& c, std::string_view tag,
                                       std::size_t index, const entry& e,
                                       std::uint64_t offset, bool strict);

/// Stores bytes under a tag; see `hn4_volume::put`.
[[nodiscard]] result<void> put_stream(core& c, std::string_view tag, bytes_view source,
                                      const hn4_put_options& options);
/// Replaces a tag if every block of its new shards lies below block `end`; returns
/// whether it did.
[[nodiscard]] result<bool> put_below(core& c, std::string_view tag, bytes_view source,
                                     const hn4_put_options& options, std::uint64_t end);
/// Writes all copies of the superblock, North last. Everything else, the epoch ring
/// included, must be durable before.
[[nodiscard]] result<void> write_superblocks(block_device& device, const superblock& sb);
/// Removes a tag; see `hn4_volume::remove`.
[[nodiscard]] result<void> remove_tag(core& c, std::string_view tag);

}  // namespace weir::storage::hn4
