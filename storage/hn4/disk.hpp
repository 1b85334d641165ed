// SPDX-License-Identifier: Apache-2.0
/// @file
/// The byte structures of an HN4 volume: superblock, layout, anchors, block headers,
/// addresses, compression. Pure functions of bytes; nothing here touches a device.
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
// ------------------------------------------------------------------------------------

inline constexpr std::size_t superblock_bytes = 8192;
inline constexpr std::size_t epoch_bytes = 128;
inline constexpr std::uint64_t superblock_magic = 0x48594452415F4E34U;
inline constexpr std::size_t armored_word = 16;  ///< of a PICO bitmap, for 64 blocks

namespace intent_bits {
inline constexpr std::uint64_t wormhole = 1, read_only = 2, virtual_size = 4;
}

namespace state_bits {
inline constexpr std::uint32_t clean = 1U << 0, dirty = 1U << 1, panic = 1U << 2,
                               degraded = 1U << 3, locked = 1U << 4, toxic = 1U << 5,
                               zeroed = 1U << 13, upgrade = 1U << 14, wipe = 1U << 15;
}

/// Fields as on disk; `*_lba` count sectors. @source{HN4 on-disk format, 1.1}
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
  std::uint64_t epoch_block = 0;  ///< absolute block of the live ring entry
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
  std::uint64_t stream_lba = 0;    ///< equals the Horizon's
  std::uint64_t sentinel = 0;
  std::uint64_t dirty_bits = 0;
  std::uint64_t last_sequence = 0;  ///< of the log
  std::uint32_t endian = 0x11223344;
  std::string label;
  std::uint32_t profile = 0;
  std::uint32_t device_type = 0;
  std::int64_t format_time = 0;
};

/// Why the bytes are no superblock, or nothing.
[[nodiscard]] std::optional<std::string> load_superblock(bytes_view from, superblock& to);
/// Writes 8192 bytes with the checksum.
void store_superblock(const superblock& from, mutable_bytes to);

/// Byte positions of the four copies; `south` is 0 where the volume is too small for one,
/// all are where blocks have no size.
/// @source{1.5}
struct copy_places {
  std::uint64_t east = 0, west = 0, south = 0;
};
[[nodiscard]] copy_places places_of_copies(std::uint64_t capacity,
                                           std::uint32_t block) noexcept;

/// Positions in bytes of a volume to be made. @error{no_space, too small for its regions}
/// @source{1.4}
[[nodiscard]] result<hn4_geometry> lay_out(hn4_profile profile, std::uint64_t capacity,
                                           std::uint32_t sector);
/// Positions of an existing volume, every bound checked. @error{corrupt} @source{1.8 item
/// 3}
[[nodiscard]] result<hn4_geometry> geometry_of(const superblock& sb);
/// Bytes that the epoch ring entry holds, with its checksum. @source{1.6}
[[nodiscard]] std::array<std::byte, epoch_bytes> make_epoch(std::uint64_t id,
                                                            std::int64_t time_ns);

// --- anchors
// ---------------------------------------------------------------------------------------

inline constexpr std::size_t anchor_bytes = 128;
inline constexpr std::size_t inline_name_bytes = 24;
inline constexpr std::size_t fragment_bytes = 16;
inline constexpr std::size_t longest_name = 255;

namespace class_bits {
inline constexpr std::uint64_t matrix = 1, is_static = 1U << 4, valid = 1U << 8,
                               tombstone = 1U << 9, horizon = 1U << 17,
                               compressed = 1U << 19, encrypted = 1U << 20,
                               nano = 1U << 22, extended = 1U << 23, weights = 1U << 24;
}

/// One shard's directory entry. @source{HN4 on-disk format, 2}
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

  [[nodiscard]] bool has(std::uint64_t bit) const noexcept {
    return (data_class & bit) != 0;
  }
  [[nodiscard]] bool live() const noexcept {
    return has(class_bits::valid) && !has(class_bits::tombstone);
  }
  /// Hint k of the cluster that block n belongs to.
  [[nodiscard]] unsigned hint(std::uint64_t n) const noexcept {
    return n < 256 ? (orbit_hints >> (2 * (n >> 4))) & 3U : 0U;
  }
};

/// Reads 128 bytes; false if the checksum is wrong (the fields are filled all the same).
[[nodiscard]] bool load_anchor(bytes_view from, anchor& to) noexcept;
void store_anchor(const anchor& from, mutable_bytes to) noexcept;
/// Name in the inline buffer, or its fragment for extended anchors: up to the first NUL.
[[nodiscard]] std::string inline_name(const anchor& a);
/// Bloom mask of a tag. @source{6}
[[nodiscard]] std::uint64_t tag_mask(std::string_view tag) noexcept;
[[nodiscard]] std::uint64_t slot_hash(hn4_id seed) noexcept;

/// What an entry of the directory stands for.
enum class entry_role : std::uint8_t {
  live,       ///< a shard that every reader sees
  announced,  ///< a shard of ours whose store counts once one entry of it is live
  grave,      ///< all shards of its tag up to its identity are removed
  ended,      ///< nothing: it was removed, or it is not valid
};
[[nodiscard]] entry_role role_of(const anchor& a) noexcept;

/// What our writer keeps in `public_id`, which no look-up uses: place and number of the
/// shards stored together, so that a missing shard is noticed.
struct group_mark {
  /// `index` of a grave.
  static constexpr std::uint32_t grave = 0xFFFF;
  /// `distance` of a group that was appended to shards of another writer.
  static constexpr std::uint32_t after_foreign = 0x7FFF;

  std::uint32_t index = 0;
  std::uint32_t count = 0;
  /// How many generations before this group the one was stored that it continues; 0: it
  /// stands alone and replaces what was before.
  std::uint32_t distance = 0;
  /// Another group continues this one, complete for certain.
  bool grown = false;
  /// The entry was written before its store counted; it is a tombstone until then.
  bool announced = false;
  /// The store replaced shards of another writer: those with lower identities.
  bool over_foreign = false;
};
[[nodiscard]] std::optional<group_mark> group_of(const anchor& a) noexcept;
[[nodiscard]] hn4_id public_id_of(group_mark mark) noexcept;

/// An entry of ours as it is written before its store counts, and as it is from then on.
[[nodiscard]] anchor announced(anchor a) noexcept;
[[nodiscard]] anchor made_live(anchor a) noexcept;

/// The identity that our writer gives a shard: the low half holds 32 bits that depend on
/// the content of the whole store and 32 bits that prove whose identity it is.
[[nodiscard]] hn4_id identity_of(hn4_id volume, std::uint64_t high,
                                 std::uint32_t content) noexcept;
/// Whether our writer gave this identity on this volume.
[[nodiscard]] bool is_ours(hn4_id volume, hn4_id identity) noexcept;
/// The identity of the shard that stands `steps` further in the same store.
[[nodiscard]] hn4_id sibling_of(hn4_id volume, hn4_id identity,
                                std::int64_t steps) noexcept;

// --- addresses
// -------------------------------------------------------------------------------------

/// What addresses depend on beside the anchor, in blocks.
struct address_space {
  std::uint64_t total = 0;
  std::uint64_t flux = 0;
  bool still = false;  ///< no orbit jitter: linear device or SYSTEM profile
};
[[nodiscard]] address_space space_of(const superblock& sb,
                                     const hn4_geometry& g) noexcept;

/// Orbits a block may lie on: k below it. @source{4}
inline constexpr unsigned orbits = 12;

/// Absolute block of block `n` of a ballistic shard on orbit k, for any k. @source{4}
[[nodiscard]] std::optional<std::uint64_t> ballistic(const address_space& space,
                                                     std::uint64_t gravity,
                                                     std::uint64_t vector,
                                                     std::uint64_t n, unsigned scale,
                                                     unsigned k) noexcept;

/// The same for one anchor with its hints, with what does not depend on `n` computed
/// once.
class trajectory {
 public:
  trajectory(const address_space& space, const anchor& a) noexcept;
  /// Absolute block, or nothing if it lies outside the volume.
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
// -----------------------------------------------------------------------------------

inline constexpr std::size_t header_bytes = 48;
/// A block that begins with so many bytes 0xCC was poisoned. @source{5 item 6}
inline constexpr std::size_t poison_bytes = 64;

/// @source{HN4 on-disk format, 3}
struct block_header {
  hn4_id well;
  std::uint64_t number = 0;
  std::uint64_t generation = 0;
  std::uint32_t data_crc = 0;
  std::uint32_t compression = 0;  ///< bits 0-3 algorithm, 4-31 stored bytes

  [[nodiscard]] unsigned algorithm() const noexcept { return compression & 0xFU; }
  [[nodiscard]] std::uint32_t stored() const noexcept { return compression >> 4; }
};

/// What the header of a block must say.
struct block_claim {
  hn4_id seed;
  std::uint64_t number = 0;
  std::uint32_t generation = 0;
  std::uint32_t payload = 0;
  bool encrypted = false;
  bool older = false;  ///< a lower generation will do
};

/// Checks 48 bytes against the claim, and 64 for poison if there are as many; the first
/// contradiction is the error (without its place).
/// @error{corrupt; generation_skew; unsupported; io, the block is poisoned} @source{5
/// item 6}
[[nodiscard]] result<block_header> check_header(bytes_view header,
                                                const block_claim& claim);
/// @error{corrupt, the payload does not have the checksum of its header}
[[nodiscard]] result<void> check_payload(const block_header& header, std::uint32_t found);
void store_header(const block_header& from, mutable_bytes to) noexcept;

/// The fields of a header, unchecked.
[[nodiscard]] block_header load_header(bytes_view header) noexcept;
/// Whether the bytes are the header of some shard's block: magic and checksum are right.
[[nodiscard]] bool is_block_header(bytes_view header) noexcept;
/// A block of this shard and number by its magic and identity, whatever else is wrong.
[[nodiscard]] bool names_itself(bytes_view header, hn4_id seed,
                                std::uint64_t number) noexcept;

/// Decodes one compressed payload; returns the bytes produced. @error{corrupt}
/// @source{5.1}
[[nodiscard]] result<std::size_t> tcc_decode(bytes_view from, mutable_bytes to);
/// Compresses a payload; returns the bytes produced, or nothing if `to` is too small for
/// them. @source{5.1}
[[nodiscard]] std::optional<std::size_t> tcc_encode(bytes_view from, mutable_bytes to);
/// String `index` of the dictionary of compressed payloads, 0 to 63.
[[nodiscard]] std::string_view tcc_word(std::size_t index) noexcept;

/// Check byte of one word of a PICO bitmap. @source{1.7}
[[nodiscard]] std::uint8_t ecc_of(std::uint64_t word) noexcept;

}  // namespace weir::storage::hn4
