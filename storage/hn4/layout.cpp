// SPDX-License-Identifier: Apache-2.0
/// @file
/// Encodes and decodes superblocks, and computes the layout of a volume and the entries
/// of the ring of epochs.
///
/// A superblock is decoded field by field from fixed offsets; the tables of fields serve
/// reading and writing, so the two cannot differ. The layout of a new volume reproduces
/// the arithmetic of the reference implementation. The layout of an existing volume is
/// only checked for contradictions: its regions may lie elsewhere than this code would
/// put them. Sizes and places are bytes in `hn4_geometry` and sectors ("lba") in the
/// superblock.
#include <fmt/core.h>

#include <algorithm>

#include "disk.hpp"
#include "weir/base/hash.hpp"
#include "weir/storage/hn4_code.hpp"

namespace weir::storage::hn4 {

namespace {

/// Second magic number of a superblock.
constexpr std::uint64_t magic_tail = 0xEFBEADDEU;
/// Larger blocks would make buffers of readers too large.
constexpr std::uint64_t largest_block = 64 * mib;

/// Fixed properties of a profile, in bytes. The row of a profile is its number.
struct profile_row {
  std::string_view name;
  std::uint64_t block;
  // The data region begins at a multiple of it.
  std::uint64_t flux_alignment;
};
constexpr std::array<profile_row, 8> profiles{{{"GENERIC", 4096, 2 * mib},
                                               {"GAMING", 16384, 65536},
                                               {"AI", 64 * mib, 64 * mib},
                                               {"ARCHIVE", 64 * mib, 64 * mib},
                                               {"PICO", 512, 512},
                                               {"SYSTEM", 4096, 2 * mib},
                                               {"USB", 65536, 65536},
                                               {"HYPER_CLOUD", 65536, mib}}};

/// Calls `visit(offset, field)` for every 64-bit field that is stored as it is, so that
/// reading and writing share one list. `Superblock` is const for writing. Fields beyond
/// those of a layout come last.
template <class Superblock, class Visit>
void visit_words(Superblock& sb, Visit visit) {
  visit(0x010, sb.uuid.lo);
  visit(0x018, sb.uuid.hi);
  visit(0x020, sb.epoch_lba);
  visit(0x028, sb.capacity);
  visit(0x030, sb.cortex_lba);
  visit(0x038, sb.bitmap_lba);
  visit(0x040, sb.flux_lba);
  visit(0x048, sb.horizon_lba);
  visit(0x058, sb.qmask_lba);
  visit(0x060, sb.epoch_id);
  visit(0x068, sb.epoch_block);
  visit(0x070, sb.generation);
  visit(0x080, sb.hardware);
  visit(0x08C, sb.compatible);
  visit(0x094, sb.incompatible);
  visit(0x09C, sb.read_only_compatible);
  visit(0x0A4, sb.mount_intent);
  visit(0x0C4, sb.journal_lba);
  visit(0x050, sb.stream_lba);
  visit(0x078, sb.sentinel);
  visit(0x0AC, sb.dirty_bits);
  visit(0x0BC, sb.journal_next);
  visit(0x110, sb.last_sequence);
}

/// Calls `visit(offset, field)` for every 32-bit field.
template <class Superblock, class Visit>
void visit_halves(Superblock& sb, Visit visit) {
  visit(0x008, sb.version);
  visit(0x00C, sb.block);
  visit(0x088, sb.state);
  visit(0x0F0, sb.profile);
  visit(0x0F4, sb.device_type);
  visit(0x0CC, sb.endian);
}

/// Makes the error for a layout that contradicts itself. All of these errors have one
/// code.
error bad_geometry(std::string text) {
  return hn4_error(hn4_code::geometry,
                   "cannot use the layout of the volume: " + std::move(text));
}

}  // namespace

// Only the bytes themselves are checked here; whether the layout is possible is a
// question for `geometry_of`.
//
// Returns the reason if the bytes are no superblock. `from` has `superblock_bytes`
// bytes.
std::optional<std::string> load_superblock(bytes_view from, superblock& to) {
  // The magic comes first: most places without a copy fail here.
  if (load_le<std::uint64_t>(from.data()) != superblock_magic) {
    return fmt::format("expected magic {:#x}, found {:#x}", superblock_magic,
                       load_le<std::uint64_t>(from.data()));
  }
  const std::uint32_t stored = load_le<std::uint32_t>(from.data() + superblock_bytes - 4);
  const std::uint32_t actual = crc32(0, from.first(superblock_bytes - 4));
  // The checksum covers everything before it.
  if (stored != actual) {
    return fmt::format("expected checksum {:#010x}, found {:#010x}", stored, actual);
  }
  if (load_le<std::uint64_t>(from.data() + 0x100) != magic_tail) {
    return "expected the second magic, found something else";
  }
  visit_words(to, [&](std::size_t offset, std::uint64_t& field) {
    field = load_le<std::uint64_t>(from.data() + offset);
  });
  visit_halves(to, [&](std::size_t offset, std::uint32_t& field) {
    field = load_le<std::uint32_t>(from.data() + offset);
  });
  to.mount_time = static_cast<std::int64_t>(load_le<std::uint64_t>(from.data() + 0x0B4));
  to.format_time = static_cast<std::int64_t>(load_le<std::uint64_t>(from.data() + 0x0F8));
  const std::string_view label = as_text(from.subspan(0x0D0, 32));
  // A label may fill its field without a NUL.
  to.label = label.substr(0, label.find('\0'));
  if (to.uuid == hn4_id{}) {
    return "expected an identity, found zero";
  }
  return std::nullopt;
}

/// Bytes that no field covers are zero, as `checker::zeros` expects. A label is cut to
/// 31 bytes, so that a NUL follows it.
void store_superblock(const superblock& from, mutable_bytes to) {
  std::fill(to.begin(), to.end(), std::byte{0});
  store_le(to.data(), superblock_magic);
  visit_words(from, [&](std::size_t offset, std::uint64_t field) {
    store_le(to.data() + offset, field);
  });
  visit_halves(from, [&](std::size_t offset, std::uint32_t field) {
    store_le(to.data() + offset, field);
  });
  store_le(to.data() + 0x0B4, static_cast<std::uint64_t>(from.mount_time));
  std::memcpy(to.data() + 0x0D0, from.label.data(),
              std::min<std::size_t>(from.label.size(), 31));
  store_le(to.data() + 0x0F8, static_cast<std::uint64_t>(from.format_time));
  store_le(to.data() + 0x100, magic_tail);
  // The checksum is computed last.
  store_le(to.data() + superblock_bytes - 4,
           crc32(0, bytes_view(to).first(superblock_bytes - 4)));
}

// The copies lie at 33 and 66 hundredths of the capacity and at its end, each at the
// border of a block.
//
// `capacity` is in bytes. The same division is used by readers that have lost the first
// copy, so it must not change.
copy_places places_of_copies(std::uint64_t capacity, std::uint32_t block) noexcept {
  copy_places places;
  if (block == 0) {
    return places;  // the size comes from a superblock that was not checked yet
  }
  const std::uint64_t bs = block;
  const std::uint64_t copy_bytes = align_up(std::uint64_t{superblock_bytes}, bs);
  places.east = align_up(capacity / 100 * 33, bs);
  places.west = align_up(capacity / 100 * 66, bs);
  // A volume with less space than 16 copies has no South copy.
  places.south = capacity >= 16 * copy_bytes ? align_down(capacity - copy_bytes, bs) : 0;
  return places;
}

// Regions from the front: superblock, ring of epochs, directory, bitmap, quality mask,
// data. Regions from the back: the South copy of the superblock, the log, the horizon
// region. The sizes are those of the reference implementation, so that it accepts the
// volume.
result<hn4_geometry> lay_out(hn4_profile profile, std::uint64_t capacity,
                             std::uint32_t sector) {
  const auto row = static_cast<std::size_t>(profile);
  WEIR_EXPECT(row < profiles.size() && (sector == 512 || sector == 4096));
  const std::uint64_t bs = std::max<std::uint64_t>(profiles[row].block, sector);
  const bool pico = profile == hn4_profile::pico;
  const auto too_small = [&] {
    return hn4_error(
        hn4_code::no_space,
        fmt::format("cannot lay out a volume of {} bytes: expected more for its regions",
                    capacity));
  };
  if (capacity < mib || capacity > static_cast<std::uint64_t>(INT64_MAX)) {
    return too_small();
  }
  hn4_geometry g;
  g.profile = profile;
  g.capacity = capacity;
  g.sector = sector;
  g.block = static_cast<std::uint32_t>(bs);
  g.payload = static_cast<std::uint32_t>(bs - header_bytes);
  g.blocks = capacity / bs;
  // The ring of epochs takes 1 MiB, or two blocks in a PICO volume.
  g.epoch = align_up(std::uint64_t{superblock_bytes}, bs);
  g.cortex = g.epoch + align_up(pico ? 2 * bs : mib, bs);
  // The directory takes 2 hundredths of the capacity, or 1 in small PICO volumes, and at
  // least 64 KiB.
  const std::uint64_t cortex =
      pico && capacity < 100 * mib ? capacity / 100 : capacity / 50;
  g.bitmap = g.cortex + align_up(std::max<std::uint64_t>(cortex, 65536), bs);
  // One bit per block for the bitmap, two for the quality mask.
  g.qmask = g.bitmap + align_up((g.blocks + 7) / 8, bs);
  const std::uint64_t end = g.qmask + align_up((g.blocks + 3) / 4, bs);
  g.flux = align_up(end, align_up(std::max(profiles[row].flux_alignment, bs), bs));
  const std::uint64_t log = align_up(pico ? 65536 : 10 * mib, bs);
  if (capacity < g.flux + log + 32768) {
    return too_small();
  }
  const std::uint64_t log_end =
      align_down(capacity - std::max<std::uint64_t>(bs, 8192), bs);
  g.journal = log_end - log;
  if (log_end < log || g.journal < g.flux + 4 * bs) {
    return too_small();
  }
  // The horizon region takes a tenth of the capacity, on tape a fiftieth. The product is
  // split to avoid an overflow.
  const std::uint64_t percent = profile == hn4_profile::archive ? 2 : 10;
  const std::uint64_t horizon = std::max(
      align_up(capacity / 100 * percent + capacity % 100 * percent / 100, bs), 4 * bs);
  g.horizon = horizon < g.journal ? g.journal - horizon : 0;
  // A small volume has no space for it at the back; it then begins a fixed number of
  // blocks behind the start of the data.
  if (g.horizon <= g.flux) {
    g.horizon = g.flux + (pico ? bs : 1024 * bs);
    if (g.horizon + 4 * bs > g.journal) {
      return too_small();
    }
  }
  return g;
}

// The superblock may be damaged, so every sum and product is checked.
//
// Nothing is compared with `lay_out`: a volume of another writer may be laid out
// differently.
result<hn4_geometry> geometry_of(const superblock& sb) {
  const std::uint64_t bs = sb.block;
  // Only a power of two lets addresses be computed by shifts.
  if (bs < 512 || bs > largest_block || !std::has_single_bit(bs)) {
    return bad_geometry(
        fmt::format("expected a block of 512 bytes to 64 MiB, found {}", bs));
  }
  if (sb.capacity < 2 * mib) {
    return bad_geometry(
        fmt::format("expected at least 2 MiB, found {} bytes", sb.capacity));
  }
  // The size of a sector is not stored. It follows from the place of the ring of epochs,
  // which begins directly behind the superblock.
  const std::uint64_t ring = align_up(std::uint64_t{superblock_bytes}, bs);
  const std::uint64_t sector = sb.epoch_lba != 0 ? ring / sb.epoch_lba : 0;
  if ((sector != 512 && sector != 4096) || sector * sb.epoch_lba != ring || sector > bs) {
    return bad_geometry(fmt::format(
        "expected the epoch ring at byte {}, found it at sector {}", ring, sb.epoch_lba));
  }
  hn4_geometry g;
  g.profile = static_cast<hn4_profile>(sb.profile);
  g.capacity = sb.capacity;
  g.sector = static_cast<std::uint32_t>(sector);
  g.block = sb.block;
  g.payload = static_cast<std::uint32_t>(bs - header_bytes);
  g.blocks = sb.capacity / bs;
  // Turns a sector into a byte offset inside the volume.
  const auto place = [&](std::uint64_t lba, std::uint64_t& to) {
    return checked_mul(lba, sector, to) && to < sb.capacity;
  };
  if (!place(sb.epoch_lba, g.epoch) || !place(sb.cortex_lba, g.cortex) ||
      !place(sb.bitmap_lba, g.bitmap) || !place(sb.qmask_lba, g.qmask) ||
      !place(sb.flux_lba, g.flux) || !place(sb.horizon_lba, g.horizon) ||
      !place(sb.journal_lba, g.journal)) {
    return bad_geometry("expected every region inside the volume, found one outside");
  }
  // Horizon and log may be anywhere behind the start of the data.
  if (!(g.epoch < g.cortex && g.cortex < g.bitmap && g.bitmap < g.qmask &&
        g.qmask < g.flux) ||
      g.flux % bs != 0) {
    return bad_geometry(
        "expected superblock, epoch ring, directory, bitmap, quality mask and "
        "data in this order, found another");
  }
  // The bitmap of a PICO volume may be shorter; blocks behind its reach are not used.
  const bool pico = g.profile == hn4_profile::pico;
  if (!pico && (g.qmask - g.bitmap) < (g.blocks + 7) / 8) {
    return bad_geometry(fmt::format("expected a bitmap of {} bits, found {} bytes",
                                    g.blocks, g.qmask - g.bitmap));
  }
  return g;
}

// A Hamming code over 64 bits with a parity bit.
//
// PICO volumes store it behind each word of the bitmap. A reader compares it and does
// not correct words by it.
std::uint8_t ecc_of(std::uint64_t word) noexcept {
  constexpr std::array<std::uint64_t, 6> masks{0x5555555555555555U, 0x3333333333333333U,
                                               0x0F0F0F0F0F0F0F0FU, 0x00FF00FF00FF00FFU,
                                               0x0000FFFF0000FFFFU, 0x00000000FFFFFFFFU};
  unsigned h = 0;
  // Each mask selects the bits that take part in one check bit.
  for (std::size_t i = 0; i < masks.size(); ++i) {
    h |= static_cast<unsigned>(std::popcount(word & masks[i]) & 1) << i;
  }
  // The parity covers the word and the check bits.
  const auto parity = static_cast<unsigned>((std::popcount(word) ^ std::popcount(h)) & 1);
  h |= static_cast<unsigned>(word >> 63) << 6;
  return static_cast<std::uint8_t>(h << 1 | parity);
}

/// Makes entry `id` of the ring: number, time in nanoseconds, a constant 1 and the
/// checksum.
std::array<std::byte, epoch_bytes> make_epoch(std::uint64_t id, std::int64_t time_ns) {
  std::array<std::byte, epoch_bytes> entry{};
  store_le(entry.data(), id);
  store_le(entry.data() + 8, static_cast<std::uint64_t>(time_ns));
  store_le(entry.data() + 20, std::uint32_t{1});
  store_le(entry.data() + 124, crc32(0, std::span<const std::byte>(entry).first(124)));
  return entry;
}

}  // namespace weir::storage::hn4

namespace weir::storage {

/// The number may come from a damaged superblock.
std::string_view name_of(hn4_profile profile) noexcept {
  const auto row = static_cast<std::size_t>(profile);
  return row < hn4::profiles.size() ? hn4::profiles[row].name : "unknown";
}

}  // namespace weir::storage
