// SPDX-License-Identifier: Apache-2.0
/// @file
/// What an open volume holds in memory, and what its parts do for each other.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
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
    const auto i = static_cast<std::size_t>(block / 8);
    return blind || (static_cast<unsigned>(bits[i]) >> (block % 8) & 1U) != 0;
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

/// Everything known about an open volume.
struct core {
  std::shared_ptr<block_device> device;
  bool writable = false;
  superblock sb;
  hn4_geometry geometry;
  address_space space;
  /// The volume was not closed cleanly: cleared bits may be stale, so a block that proves
  /// itself counts.
  bool unclean = false;
  /// Why the reference would refuse to write, empty if it would not.
  std::string read_only_reason;
  std::shared_ptr<const block_bits> bits;
  std::vector<entry> entries;  ///< slots in use with a good checksum, by slot
  std::vector<entry> damaged;  ///< slots in use with a bad one
  std::vector<std::string> warnings;

  [[nodiscard]] std::uint64_t slots() const noexcept {
    return (geometry.bitmap - geometry.cortex) / anchor_bytes;
  }
  [[nodiscard]] std::uint64_t slot_offset(std::uint64_t slot) const noexcept {
    return geometry.cortex + slot * anchor_bytes;
  }
  /// "file:offset (what)"
  [[nodiscard]] std::string place(std::uint64_t offset, const std::string& what) const;
};

/// Reads superblocks, epoch, bitmap and directory.
[[nodiscard]] result<std::shared_ptr<core>> mount(std::shared_ptr<block_device> device,
                                                  device_mode mode);
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
[[nodiscard]] result<selection> select_tag(const core& c, std::string_view tag);
/// All live entries under a name, complete or not.
[[nodiscard]] result<std::vector<entry>> live_entries(const core& c,
                                                      std::string_view tag);
[[nodiscard]] result<std::vector<hn4_tag>> list_tags(const core& c);

/// One shard as a stream needs it.
struct shard_source {
  trajectory path;
  hn4_id seed;
  std::uint32_t generation = 0;
  bool encrypted = false;
};

/// What a stream holds; independent of the volume object.
struct stream_map {
  std::shared_ptr<block_device> device;
  std::shared_ptr<const block_bits> bits;
  hn4_geometry geometry;
  bool unclean = false;
  hn4_holes holes = hn4_holes::error;
  std::string tag;
  std::uint64_t size = 0;
  std::vector<hn4_shard> shards;
  std::vector<shard_source> sources;
  std::vector<std::string> warnings;
};
[[nodiscard]] result<std::shared_ptr<const stream_map>> map_stream(
    const core& c, std::string_view tag, const hn4_stream_options& options);

[[nodiscard]] result<void> put_stream(core& c, std::string_view tag, bytes_view source,
                                      const hn4_put_options& options);

}  // namespace weir::storage::hn4
