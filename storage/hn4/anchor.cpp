// SPDX-License-Identifier: Apache-2.0
/// @file
/// Encodes and decodes directory entries, their names, and the fields and identities that
/// this writer gives them.
///
/// This writer uses two fields that no look-up reads. `public_id` numbers the shards of a
/// store, and marks announced entries and graves. The low half of an identity proves that
/// this writer gave it on this volume, so that blocks without an entry can be attributed.
#include <algorithm>

#include "disk.hpp"
#include "weir/base/hash.hpp"

namespace weir::storage::hn4 {

namespace {

/// High half of the `public_id` of entries of this writer: "WERSHRD1".
constexpr std::uint64_t mark_magic = 0x3144524853524557U;

/// Computes the checksum of an entry; its own bytes 0x60 to 0x63 count as zeros. The
/// checksum is in the middle of the entry, so it is computed in three parts.
std::uint32_t checksum_of(bytes_view from) noexcept {
  static constexpr std::array<std::byte, 4> zero{};
  const std::uint32_t head = crc32(0, from.first(0x60));
  return crc32(crc32(head, zero), from.subspan(0x64, anchor_bytes - 0x64));
}

/// Decodes an identity, low half first. Identities are stored as two words of 64 bits in
/// little-endian order.
hn4_id load_id(const std::byte* from) noexcept {
  hn4_id id;
  id.lo = load_le<std::uint64_t>(from);
  id.hi = load_le<std::uint64_t>(from + 8);
  return id;
}

void store_id(hn4_id id, std::byte* to) noexcept {
  store_le(to, id.lo);
  store_le(to + 8, id.hi);
}

/// Hash of a part of a tag (FNV-1a).
std::uint64_t fnv1a(std::string_view piece) noexcept {
  std::uint64_t h = 0xCBF29CE484222325U;
  for (const char c : piece) {
    h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  }
  return h;
}

}  // namespace

/// Returns false if the checksum is wrong. The fields are decoded in any case, because a
/// check of the volume names what a damaged entry claims to be.
bool load_anchor(bytes_view from, anchor& to) noexcept {
  const std::byte* p = from.data();
  to.seed = load_id(p);
  to.public_id = load_id(p + 0x10);
  to.gravity = load_le<std::uint64_t>(p + 0x20);
  to.mass = load_le<std::uint64_t>(p + 0x28);
  to.data_class = load_le<std::uint64_t>(p + 0x30);
  to.tag_filter = load_le<std::uint64_t>(p + 0x38);
  // Vector (48 bits) and scale (16 bits) share one word.
  const std::uint64_t orbit = load_le<std::uint64_t>(p + 0x40);
  to.orbit_vector = orbit & 0xFFFFFFFFFFFFU;
  to.fractal_scale = static_cast<std::uint16_t>(orbit >> 48);
  to.permissions = load_le<std::uint32_t>(p + 0x48);
  to.sovereign = load_le<std::uint32_t>(p + 0x4C);
  to.mod_clock = static_cast<std::int64_t>(load_le<std::uint64_t>(p + 0x50));
  to.write_gen = load_le<std::uint32_t>(p + 0x58);
  to.create_clock = load_le<std::uint32_t>(p + 0x5C);
  to.orbit_hints = load_le<std::uint32_t>(p + 0x64);
  std::memcpy(to.name.data(), p + 0x68, inline_name_bytes);
  return load_le<std::uint32_t>(p + 0x60) == checksum_of(from);
}

/// Writes all 128 bytes. The checksum comes last, because it covers all other fields.
void store_anchor(const anchor& from, mutable_bytes to) noexcept {
  std::byte* p = to.data();
  store_id(from.seed, p);
  store_id(from.public_id, p + 0x10);
  store_le(p + 0x20, from.gravity);
  store_le(p + 0x28, from.mass);
  store_le(p + 0x30, from.data_class);
  store_le(p + 0x38, from.tag_filter);
  store_le(p + 0x40, from.orbit_vector | std::uint64_t{from.fractal_scale} << 48);
  store_le(p + 0x48, from.permissions);
  store_le(p + 0x4C, from.sovereign);
  store_le(p + 0x50, static_cast<std::uint64_t>(from.mod_clock));
  store_le(p + 0x58, from.write_gen);
  store_le(p + 0x5C, from.create_clock);
  store_le(p + 0x64, from.orbit_hints);
  std::memcpy(p + 0x68, from.name.data(), inline_name_bytes);
  store_le(p + 0x60, checksum_of(to));
}

/// The first 8 bytes of the field hold the position of the long name if the entry is
/// extended; then only the beginning of the name is here.
std::string inline_name(const anchor& a) {
  const std::size_t skip = a.has(class_bits::extended) ? 8 : 0;
  const std::string_view all = as_text(bytes_view(a.name).subspan(skip));
  return std::string(all.substr(0, all.find('\0')));
}

// The parts between '/', ':' and NUL are hashed one by one, so that a part of a tag can
// be searched.
//
// Three bits are set for each part, as in a Bloom filter: a look-up skips entries whose
// mask lacks a bit of the name, and compares the names of the others.
std::uint64_t tag_mask(std::string_view tag) noexcept {
  std::uint64_t mask = 0;
  while (!tag.empty()) {
    const std::size_t n =
        std::min(tag.find_first_of(std::string_view("/:\0", 3)), tag.size());
    if (n > 0) {
      const std::uint64_t h = fnv1a(tag.substr(0, n));
      mask |= std::uint64_t{1} << (h & 63) | std::uint64_t{1} << (h >> 21 & 63) |
              std::uint64_t{1} << (h >> 42 & 63);
    }
    tag.remove_prefix(std::min(n + 1, tag.size()));
  }
  return mask;
}

// The finaliser of MurmurHash3, as the format prescribes it. Look-ups begin at this
// value modulo the number of slots and go on to the first empty slot.
std::uint64_t slot_hash(hn4_id seed) noexcept {
  std::uint64_t h = seed.lo ^ seed.hi;
  h ^= h >> 33;
  h *= 0xFF51AFD7ED558CCDU;
  h ^= h >> 33;
  return h;
}

// Announced entries and graves are tombstones for every other reader, and only the marks
// of this writer tell them apart.
//
// An announced entry belongs to a store that has not ended yet. A grave marks a removal
// that frees the blocks of its shard before it ends.
entry_role role_of(const anchor& a) noexcept {
  if (!a.has(class_bits::valid)) {
    return entry_role::ended;
  }
  if (!a.has(class_bits::tombstone)) {
    return entry_role::live;
  }
  const auto mark = group_of(a);
  return mark && mark->index == group_mark::grave ? entry_role::grave
         : mark && mark->announced                ? entry_role::announced
                                                  : entry_role::ended;
}

// The low half, from bit 0: index (16 bits), distance (15), grown (1), count (30),
// over_foreign (1), announced (1).
//
// Returns nothing for entries of other writers, whose `public_id` has another high half.
std::optional<group_mark> group_of(const anchor& a) noexcept {
  if (a.public_id.hi != mark_magic) {
    return std::nullopt;
  }
  const std::uint64_t bits = a.public_id.lo;
  group_mark mark;
  mark.index = static_cast<std::uint32_t>(bits & 0xFFFFU);
  mark.distance = static_cast<std::uint32_t>(bits >> 16 & 0x7FFFU);
  mark.grown = (bits >> 31 & 1U) != 0;
  mark.count = static_cast<std::uint32_t>(bits >> 32 & 0x3FFFFFFFU);
  mark.over_foreign = (bits >> 62 & 1U) != 0;
  mark.announced = bits >> 63 != 0;
  return mark;
}

/// Inverse of `group_of`.
hn4_id public_id_of(group_mark mark) noexcept {
  hn4_id id;
  id.hi = mark_magic;
  id.lo = std::uint64_t{mark.announced} << 63 | std::uint64_t{mark.over_foreign} << 62 |
          std::uint64_t{mark.count} << 32 | std::uint64_t{mark.grown} << 31 |
          std::uint64_t{mark.distance} << 16 | mark.index;
  return id;
}

/// A reader of any kind sees a removed entry until `made_live` takes the bit away. The
/// first such write of a group decides that its store counts.
anchor announced(anchor a) noexcept {
  group_mark mark = group_of(a).value_or(group_mark{});
  mark.announced = true;
  a.public_id = public_id_of(mark);
  a.data_class |= class_bits::tombstone;
  return a;
}

/// Inverse of `announced`.
anchor made_live(anchor a) noexcept {
  group_mark mark = group_of(a).value_or(group_mark{});
  mark.announced = false;
  a.public_id = public_id_of(mark);
  a.data_class &= ~class_bits::tombstone;
  return a;
}

// The proof is a hash over volume, position and content. A foreign identity has the same
// 32 bits with a probability of 2^-32.
//
// `high` is the position of the shard in the order of creation.
hn4_id identity_of(hn4_id volume, std::uint64_t high, std::uint32_t content) noexcept {
  std::array<std::byte, 28> proven{};
  store_id(volume, proven.data());
  store_le(proven.data() + 16, high);
  store_le(proven.data() + 24, content);
  hn4_id id;
  id.hi = high;
  id.lo = std::uint64_t{content} << 32 | (xxh3_64(proven) & 0xFFFFFFFFU);
  return id;
}

/// Recomputes the proof from the parts of the identity that are not proof.
bool is_ours(hn4_id volume, hn4_id identity) noexcept {
  return identity == sibling_of(volume, identity, 0);
}

/// Shards of one tag have consecutive high halves and the same content number, so the
/// identity of a neighbour can be computed without its entry.
hn4_id sibling_of(hn4_id volume, hn4_id identity, std::int64_t steps) noexcept {
  return identity_of(volume, identity.hi + static_cast<std::uint64_t>(steps),
                     static_cast<std::uint32_t>(identity.lo >> 32));
}

}  // namespace weir::storage::hn4
