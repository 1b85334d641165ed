// SPDX-License-Identifier: Apache-2.0
/// @file
/// The byte structures of an HN4 volume: superblock, layout, directory entries ("anchors"
/// in the specification), block headers, addresses, compression. All functions are pure:
/// nothing here touches a device.
/// Numbers in @source name sections of the HN4 on-disk format.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"
#include "weir/storage/hn4.hpp"

namespace weir::storage::hn4 {

// --- superblock

/// Size of a superblock copy.
inline constexpr std::size_t superblock_bytes = 8192;
/// Size of an entry in the ring of epochs.
inline constexpr std::size_t epoch_bytes = 128;
inline constexpr std::uint64_t superblock_magic = 0x48594452415F4E34U;
/// Size of a word of a PICO bitmap, which holds 64 bits and their check byte.
inline constexpr std::size_t armored_word = 16;

inline constexpr std::uint64_t mib = std::uint64_t{1} << 20;
/// A byte of the quality mask of a new volume: quality 2 for four blocks.
inline constexpr std::byte silver{0xAA};
/// Longest token of a compressed payload in bytes.
inline constexpr std::size_t longest_token = 8223;

/// Flags of `superblock::mount_intent`.
namespace intent_bits {
inline constexpr std::uint64_t wormhole = 1, read_only = 2, virtual_size = 4;
}

/// Flags of `superblock::state`.
namespace state_bits {
inline constexpr std::uint32_t clean = 1U << 0, dirty = 1U << 1, panic = 1U << 2,
                               degraded = 1U << 3, locked = 1U << 4, toxic = 1U << 5,
                               zeroed = 1U << 13, upgrade = 1U << 14, wipe = 1U << 15;
}

/// Fields of a superblock as on disk. Members that end in `_lba` count sectors.
/// @source{HN4 on-disk format, 1.1}
struct superblock {
  std::uint32_t version = 0x00060006;
  std::uint32_t block = 0;
  hn4_id uuid;
  std::uint64_t epoch_lba = 0;
  std::uint64_t capacity = 0;  ///< bytes
  std::uint64_t cortex_lba = 0;
  std::uint64_t bitmap_lba = 0;
  std::uint64_t flux_lba = 0;
  std::uint64_t horizon_lba = 0;
  std::uint64_t qmask_lba = 0;
  std::uint64_t epoch_id = 0;
  /// Number of the block that holds the current entry of the ring.
  std::uint64_t epoch_block = 0;
  std::uint64_t generation = 0;
  std::uint64_t hardware = 0;
  std::uint32_t state = 0;
  std::uint64_t compatible = 0;
  std::uint64_t incompatible = 0;
  std::uint64_t read_only_compatible = 0;
  std::uint64_t mount_intent = 0;
  std::int64_t mount_time = 0;
  std::uint64_t journal_lba = 0;
  std::uint64_t journal_next = 0;  ///< sector of the next entry of the log
  std::uint64_t stream_lba = 0;    ///< equals `horizon_lba`
  std::uint64_t sentinel = 0;
  std::uint64_t dirty_bits = 0;
  std::uint64_t last_sequence = 0;  ///< last sequence number of the log
  std::uint32_t endian = 0x11223344;
  std::string label;
  std::uint32_t profile = 0;
  std::uint32_t device_type = 0;
  std::int64_t format_time = 0;
};

/// Decodes a superblock. Returns why the bytes are none, or nothing on success.
[[nodiscard]] std::optional<std::string> load_superblock(bytes_view from, superblock& to);
/// Writes a superblock of 8192 bytes with its checksum.
void store_superblock(const superblock& from, mutable_bytes to);

/// Byte offsets of the copies besides North, which lies at 0. `south` is 0 if the volume
/// is too small for it. All are 0 if the block size is unknown.
/// @source{1.5}
struct copy_places {
  std::uint64_t east = 0, west = 0, south = 0;
};
/// Computes the offsets of the copies.
[[nodiscard]] copy_places places_of_copies(std::uint64_t capacity,
                                           std::uint32_t block) noexcept;

/// Computes the layout of a new volume. @error{no_space, the capacity is too small for
/// the regions}
/// @source{1.4}
[[nodiscard]] result<hn4_geometry> lay_out(hn4_profile profile, std::uint64_t capacity,
                                           std::uint32_t sector);
/// Computes the layout of an existing volume and checks every bound. @error{corrupt,
/// regions overlap or leave the volume}
/// @source{1.8 item 3}
[[nodiscard]] result<hn4_geometry> geometry_of(const superblock& sb);
/// Returns the bytes of an entry of the ring of epochs, with its checksum. @source{1.6}
[[nodiscard]] std::array<std::byte, epoch_bytes> make_epoch(std::uint64_t id,
                                                            std::int64_t time_ns);

// --- anchors

/// Size of a directory entry.
inline constexpr std::size_t anchor_bytes = 128;
/// Longest name that is kept in the entry itself.
inline constexpr std::size_t inline_name_bytes = 24;
/// Bytes of a longer name that the entry repeats.
inline constexpr std::size_t fragment_bytes = 16;
/// Longest name of a tag.
inline constexpr std::size_t longest_name = 255;

/// Flags of `anchor::data_class`.
namespace class_bits {
inline constexpr std::uint64_t matrix = 1, is_static = 1U << 4, valid = 1U << 8,
                               tombstone = 1U << 9, horizon = 1U << 17,
                               compressed = 1U << 19, encrypted = 1U << 20,
                               nano = 1U << 22, extended = 1U << 23, weights = 1U << 24;
}

/// Directory entry of one shard. @source{HN4 on-disk format, 2}
struct anchor {
  hn4_id seed;
  hn4_id public_id;
  std::uint64_t gravity = 0;
  std::uint64_t mass = 0;
  std::uint64_t data_class = 0;
  std::uint64_t tag_filter = 0;
  std::uint64_t orbit_vector = 0;  ///< 48 bits
  std::uint16_t fractal_scale = 0;
  std::uint32_t permissions = 0;
  std::uint32_t sovereign = 0;
  std::int64_t mod_clock = 0;
  std::uint32_t write_gen = 0;
  std::uint32_t create_clock = 0;
  std::uint32_t orbit_hints = 0;
  std::array<std::byte, inline_name_bytes> name{};

  /// Returns whether a flag of `data_class` is set.
  [[nodiscard]] bool has(std::uint64_t bit) const noexcept {
    return (data_class & bit) != 0;
  }
  /// Returns whether every reader sees the shard.
  [[nodiscard]] bool live() const noexcept {
    return has(class_bits::valid) && !has(class_bits::tombstone);
  }
  /// Returns which of four places (orbits) block `n` lies on. A hint of two bits covers
  /// 16 blocks; blocks from 256 on have none and lie on the first orbit.
  [[nodiscard]] unsigned hint(std::uint64_t n) const noexcept {
    return n < 256 ? (orbit_hints >> (2 * (n >> 4))) & 3U : 0U;
  }
};

/// Decodes 128 bytes. Returns false if the checksum is wrong; the fields are set all the
/// same.
[[nodiscard]] bool load_anchor(bytes_view from, anchor& to) noexcept;
/// Encodes an entry with its checksum.
void store_anchor(const anchor& from, mutable_bytes to) noexcept;
/// Returns the name in the entry, or the fragment of a long name: the bytes up to the
/// first NUL.
[[nodiscard]] std::string inline_name(const anchor& a);
/// Returns the Bloom filter of a tag: three bits for each part between separators.
/// @source{6}
[[nodiscard]] std::uint64_t tag_mask(std::string_view tag) noexcept;
/// Returns the hash of an identity from which its directory slot follows.
[[nodiscard]] std::uint64_t slot_hash(hn4_id seed) noexcept;

/// Meaning of a directory entry.
enum class entry_role : std::uint8_t {
  live,  ///< a shard that every reader sees
  /// A shard of ours that no reader sees yet. Its store counts once one of its entries is
  /// live.
  announced,
  grave,  ///< removes all shards of its tag with identities up to its own
  ended,  ///< nothing: it was removed or is not valid
};
/// Returns the meaning of an entry.
[[nodiscard]] entry_role role_of(const anchor& a) noexcept;

/// Fields that this writer keeps in `public_id`, which no look-up uses. They number the
/// shards that were stored together (a group), so that a missing one is noticed: the
/// format itself does not say how many shards a tag has.
struct group_mark {
  /// Value of `index` for a grave.
  static constexpr std::uint32_t grave = 0xFFFF;
  /// Value of `distance` for a group that was appended to shards of another writer.
  static constexpr std::uint32_t after_foreign = 0x7FFF;

  std::uint32_t index = 0;
  std::uint32_t count = 0;
  /// Distance in generations to the group that this one continues; 0 if it stands alone
  /// and replaces what was there before.
  std::uint32_t distance = 0;
  /// True if another group continues this one, and that group is certainly complete.
  bool grown = false;
  /// True if the entry was written before its store counted; it is a tombstone until
  /// then.
  bool announced = false;
  /// True if the store replaced shards of another writer, which have lower identities.
  bool over_foreign = false;
};
/// Returns the fields of an entry, or nothing if another writer made it.
[[nodiscard]] std::optional<group_mark> group_of(const anchor& a) noexcept;
/// Encodes the fields as a `public_id`.
[[nodiscard]] hn4_id public_id_of(group_mark mark) noexcept;

/// Returns an entry as it is written before its store counts: a tombstone with a mark.
[[nodiscard]] anchor announced(anchor a) noexcept;
/// Returns an announced entry as it is once its store counts.
[[nodiscard]] anchor made_live(anchor a) noexcept;

/// Returns the identity that this writer gives a shard. The low half holds 32 bits that
/// depend on the content of the whole store, and 32 bits of a hash that proves who gave
/// the identity.
[[nodiscard]] hn4_id identity_of(hn4_id volume, std::uint64_t high,
                                 std::uint32_t content) noexcept;
/// Returns whether this writer gave an identity on this volume.
[[nodiscard]] bool is_ours(hn4_id volume, hn4_id identity) noexcept;
/// Returns the identity of the shard that stands `steps` further in the same store.
[[nodiscard]] hn4_id sibling_of(hn4_id volume, hn4_id identity,
                                std::int64_t steps) noexcept;

// --- addresses

/// The properties of a volume on which addresses depend, in blocks.
struct address_space {
  std::uint64_t total = 0;  ///< blocks of the volume
  std::uint64_t flux = 0;   ///< first block of the data region
  /// True if the orbits of a block do not differ: linear device or profile SYSTEM.
  bool still = false;
};
/// Derives the address space from a superblock.
[[nodiscard]] address_space space_of(const superblock& sb,
                                     const hn4_geometry& g) noexcept;

/// Number of orbits: a block may lie on any orbit k below it. @source{4}
inline constexpr unsigned orbits = 12;

/// Returns the absolute block of block `n` of a ballistic shard on orbit `k`; nothing if
/// the shard has no place. @source{4}
[[nodiscard]] std::optional<std::uint64_t> ballistic(const address_space& space,
                                                     std::uint64_t gravity,
                                                     std::uint64_t vector,
                                                     std::uint64_t n, unsigned scale,
                                                     unsigned k) noexcept;

/// Addresses of one shard on the orbits of its hints. Computes once what does not depend
/// on the block number.
class trajectory {
 public:
  trajectory(const address_space& space, const anchor& a) noexcept;
  /// Returns the absolute block of block `n`, or nothing if it lies outside the volume.
  [[nodiscard]] std::optional<std::uint64_t> block(std::uint64_t n) const noexcept;

 private:
  std::uint64_t total_;
  std::uint64_t gravity_;
  std::uint64_t base_ = 0, phi_ = 0, step_ = 0;
  std::uint32_t hints_;
  unsigned scale_;
  bool horizon_;
  bool still_;
};

// --- data blocks

/// Size of the header of a data block.
inline constexpr std::size_t header_bytes = 48;
/// Number of bytes 0xCC at the start of a block that mark it as poisoned. @source{5 item
/// 6}
inline constexpr std::size_t poison_bytes = 64;

/// Header of a data block. @source{HN4 on-disk format, 3}
struct block_header {
  hn4_id well;
  std::uint64_t number = 0;
  std::uint64_t generation = 0;
  std::uint32_t data_crc = 0;
  std::uint32_t compression = 0;  ///< bits 0 to 3: algorithm; bits 4 to 31: stored bytes

  /// Returns the algorithm: 0 for raw, 3 for compressed.
  [[nodiscard]] unsigned algorithm() const noexcept { return compression & 0xFU; }
  /// Returns the number of stored bytes.
  [[nodiscard]] std::uint32_t stored() const noexcept { return compression >> 4; }
};

/// The values that the header of a block must have.
struct block_claim {
  hn4_id seed;
  std::uint64_t number = 0;
  std::uint32_t generation = 0;
  std::uint32_t payload = 0;
  bool encrypted = false;
  bool older = false;  ///< also accept a lower generation
};

/// Checks a header of 48 bytes against a claim. If there are 64 bytes, it also recognises
/// poison. The error has no place; the caller adds it.
/// @error{corrupt, a checksum, magic, identity or number is wrong}
/// @error{generation_skew, the generation is another} @error{unsupported, the compression
/// is unknown} @error{io, the block is poisoned}
/// @source{5 item 6}
[[nodiscard]] result<block_header> check_header(bytes_view header,
                                                const block_claim& claim);
/// Compares the checksum of a payload with its header. @error{corrupt, they differ}
[[nodiscard]] result<void> check_payload(const block_header& header, std::uint32_t found);
/// Encodes a header with its checksum.
void store_header(const block_header& from, mutable_bytes to) noexcept;

/// Decodes the fields of a header without checking them.
[[nodiscard]] block_header load_header(bytes_view header) noexcept;
/// Returns whether the bytes are the header of a block of any shard: magic and checksum
/// are right.
[[nodiscard]] bool is_block_header(bytes_view header) noexcept;
/// Returns whether a header names this shard and block number, whatever else is wrong
/// with it.
[[nodiscard]] bool names_itself(bytes_view header, hn4_id seed,
                                std::uint64_t number) noexcept;

/// Decompresses a payload and returns the number of bytes produced. @error{corrupt, a
/// token is invalid}
/// @source{5.1}
[[nodiscard]] result<std::size_t> tcc_decode(bytes_view from, mutable_bytes to);
/// Compresses a payload and returns the number of bytes produced, or nothing if `to` is
/// too small for them.
/// @source{5.1}
[[nodiscard]] std::optional<std::size_t> tcc_encode(bytes_view from, mutable_bytes to);
/// Returns string `index` (0 to 63) of the dictionary for compressed payloads.
[[nodiscard]] std::string_view tcc_word(std::size_t index) noexcept;

/// Returns the check byte of one word of a PICO bitmap. @source{1.7}
[[nodiscard]] std::uint8_t ecc_of(std::uint64_t word) noexcept;

}  // namespace weir::storage::hn4
