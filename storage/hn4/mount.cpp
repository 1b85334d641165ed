// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opens a volume: checks epoch and state, and reads bitmap and directory.
///
/// Opening happens in the order in which things can be trusted: a superblock is elected
/// (vote.cpp), its layout is checked, then the epoch entry, the state word, the bitmap
/// and the directory are read. Each reason to refuse has the code of the reference
/// implementation. Some faults only make the volume read-only; `recover` can remove the
/// reasons that a crash leaves.
///
/// A reader skips the directory if the index beside the image is valid. A writer, a
/// strict reader and a check always read all of it.
#include <fmt/core.h>

#include <algorithm>

#include "hn4/directory/directory.hpp"
#include "hn4/write/allocation.hpp"
#include "hn4/write/leftovers.hpp"
#include "weir/base/hash.hpp"
#include "weir/storage/hn4_code.hpp"

/// Only the superblock decides about refusals; faults of single entries or blocks are
/// left to the reads that meet them.
namespace weir::storage::hn4 {

namespace {

/// Largest bitmap that is read into memory: 1 GiB covers 8 Gi blocks. A larger bitmap is
/// refused before its memory is allocated.
constexpr std::uint64_t largest_bitmap = std::uint64_t{1} << 30;
/// Largest number of blocks of a PICO volume, whose bitmap is read in whole and takes 16
/// bytes for 64 blocks: 256 MiB.
constexpr std::uint64_t largest_pico = std::uint64_t{1} << 30;
/// Bytes of one read while a region is scanned. Bounds the memory of a scan, whatever
/// the size of the region.
constexpr std::size_t scan_bytes = std::size_t{1} << 20;
/// Largest directory from which the bits of an unclean volume are rebuilt. A larger one
/// is not rebuilt from, since that would read every block that it names.
constexpr std::uint64_t largest_rebuild = std::uint64_t{256} << 20;

/// Derives the layout from the superblock and compares it with the size of the device.
/// An image that is shorter than its superblock says is refused, unless the volume is
/// marked to have a virtual size or is only examined.
result<void> check_volume_geometry(core& c) {
  const std::string place = fmt::format("{}:0 (superblock)", c.device->name());
  auto geometry = geometry_of(c.sb);
  if (!geometry) {
    return std::move(geometry).error().located(place);
  }
  // From here on the addresses of blocks can be computed.
  c.geometry = *geometry;
  c.space = space_of(c.sb, c.geometry);
  const bool virtual_size = (c.sb.mount_intent & intent_bits::virtual_size) != 0;
  if (c.sb.capacity > c.device->size() && !virtual_size && !c.examine) {
    return hn4_error(hn4_code::geometry,
                     fmt::format("cannot open \"{}\": expected {} bytes, found {}",
                                 c.device->name(), c.sb.capacity, c.device->size()),
                     errc::torn)
        .located(place)
        .hint("the file was cut; copy it again");
  }
  return {};
}

/// Notes a reason to open the volume only for reading. `recoverable` says whether
/// `recover` can remove it. The first reason is the one that an attempt to write
/// reports. All of them are warnings.
void force_read_only(core& c, std::string why, bool recoverable) {
  if (c.read_only_reason.empty()) {
    c.read_only_reason = why;
  }
  c.recoverable = c.recoverable && recoverable;
  c.warnings.push_back(std::move(why));
}

/// Makes an error, unless the volume is only examined: a check reports the fault itself.
/// `offset` is in bytes, and `thing` names what lies there.
result<void> refuse(core& c, hn4_code code, std::string text, std::uint64_t offset,
                    const std::string& thing) {
  if (c.examine) {
    return {};
  }
  return hn4_error(code, std::move(text)).located(c.place(offset, thing));
}

/// Reads the current entry of the ring of epochs. Its number must be that of the
/// superblock; a small difference makes the volume read-only, a large one makes it
/// unusable.
result<void> check_epoch(core& c) {
  // The block number comes from the superblock and is checked before it is used.
  if (c.sb.epoch_block >= c.geometry.blocks) {
    return refuse(
        c, hn4_code::data_rot,
        fmt::format("cannot read the epoch: expected a block below {}, found {}",
                    c.geometry.blocks, c.sb.epoch_block),
        0, "superblock");
  }
  const std::uint64_t offset = c.sb.epoch_block * c.geometry.block;
  std::array<std::byte, epoch_bytes> entry{};
  // An examination goes on without the entry, since the check reports it.
  if (auto read = c.device->read(offset, entry); !read) {
    return c.examine ? result<void>() : std::move(read);
  }
  const std::uint32_t actual = crc32(0, std::span<const std::byte>(entry).first(124));
  // A bad checksum is what an interrupted write leaves, so `recover` may remove this
  // reason.
  if (load_le<std::uint32_t>(entry.data() + 124) != actual) {
    c.state |= state_bits::panic;
    force_read_only(c, fmt::format("epoch entry at byte {} has a bad checksum", offset),
                    true);
    return {};
  }
  const std::uint64_t id = load_le<std::uint64_t>(entry.data());
  // Both differences are computed modulo 2^64.
  const std::uint64_t ahead = id - c.sb.epoch_id;
  const std::uint64_t behind = c.sb.epoch_id - id;
  if (ahead == 0) {
    return {};
  }
  // The bounds are those of the reference implementation. The subtractions wrap around,
  // so of the two numbers one is small.
  if (ahead > 5000 && behind > 100) {
    return refuse(
        c, hn4_code::media_toxic,
        fmt::format("cannot use the epoch: expected {}, found {}", c.sb.epoch_id, id),
        offset, "epoch entry");
  }
  // The ring and the superblock disagree by little: one of them is older.
  force_read_only(
      c,
      fmt::format("epoch entry at byte {} is not the superblock's: expected {}, found {}",
                  offset, c.sb.epoch_id, id),
      false);
  return {};
}

/// Refuses volumes that must not be opened at all. `wounded` volumes are looked at
/// although they are marked as locked.
result<void> check_refusals(core& c, bool wounded) {
  using namespace state_bits;
  // A volume that is damaged besides may be opened for reading, as its data can still be
  // saved.
  if ((c.state & (wipe | locked)) != 0 && !wounded) {
    const bool is_locked = (c.state & locked) != 0;
    WEIR_CHECK(refuse(c, is_locked ? hn4_code::volume_locked : hn4_code::wipe_pending,
                      fmt::format("cannot open the volume: it is marked {}",
                                  is_locked ? "locked" : "for wiping"),
                      0, "superblock"));
  }
  if (c.sb.incompatible != 0) {
    WEIR_CHECK(refuse(
        c, hn4_code::version_incompat,
        fmt::format("cannot open the volume: expected no incompatible features, found "
                    "{:#x}",
                    c.sb.incompatible),
        0, "superblock"));
  }
  // Without the flag the regions may hold old bytes of the medium.
  if ((c.state & zeroed) == 0) {
    WEIR_CHECK(refuse(c, hn4_code::uninitialized,
                      "cannot open the volume: its metadata was never initialised", 0,
                      "superblock"));
  }
  return {};
}

/// Derives from the state word whether the volume is read-only or unclean.
result<void> check_state(core& c) {
  using namespace state_bits;
  const std::uint32_t s = c.sb.state;
  const bool wounded = (c.state & (panic | toxic)) != 0;
  WEIR_CHECK(check_refusals(c, wounded));
  // Marks that only a tool of the reference can remove.
  if ((s & (panic | toxic | upgrade | locked | wipe)) != 0 ||
      c.sb.read_only_compatible != 0 ||
      (c.sb.mount_intent & intent_bits::read_only) != 0) {
    force_read_only(c, fmt::format("volume is marked read-only (state {:#x})", s), false);
  }
  // Not closed cleanly: a writer was killed. The data can be read, but the bitmap may be
  // outdated.
  if ((s & dirty) != 0 || (s & clean) == 0) {
    force_read_only(c, fmt::format("volume was not closed cleanly (state {:#x})", s),
                    true);
  }
  // An unclean volume makes readers accept blocks without a bit in the bitmap.
  c.unclean = (c.state & (dirty | panic | degraded)) != 0 &&
              c.geometry.bitmap - c.geometry.cortex <= largest_rebuild;
  return {};
}

/// Calls `visit(offset, bytes)` for the parts of [begin, end) that may hold data, in
/// pieces that begin at multiples of `unit`. Holes are skipped: they count as zeros.
///
/// `visit` is called in ascending order. A piece has at most `scan_bytes` bytes.
template <class Visit>
result<void> scan(block_device& device, std::uint64_t begin, std::uint64_t end,
                  std::uint64_t unit, Visit visit) {
  byte_vector buffer;
  for (std::uint64_t offset = begin; offset < end;) {
    WEIR_TRY(const extent data, device.next_data(offset, end));
    if (data.size == 0) {
      break;
    }
    // A hole may end inside a unit; the unit is then read in whole.
    offset = begin + align_down(data.offset - begin, unit);
    const std::uint64_t stop = std::min(end, begin + align_up(data.end() - begin, unit));
    for (; offset < stop; offset += buffer.size()) {
      buffer.resize(
          static_cast<std::size_t>(std::min<std::uint64_t>(stop - offset, scan_bytes)));
      WEIR_CHECK(device.read(offset, buffer));
      visit(offset, bytes_view(buffer));
    }
  }
  return {};
}

/// Reads the bitmap. A PICO volume stores a check byte with each word, so it is
/// converted; other bitmaps are read as they are, holes skipped.
result<void> read_bits(core& c) {
  auto bits = std::make_shared<block_bits>();
  const bool pico = c.geometry.profile == hn4_profile::pico;
  // Bits of a PICO volume are not trusted by readers.
  bits->blind = pico;
  if (pico && c.geometry.blocks > largest_pico) {
    return error(errc::unsupported,
                 fmt::format("cannot open the volume: expected a PICO volume of at most "
                             "{} blocks, found {}",
                             largest_pico, c.geometry.blocks))
        .located(c.place(c.geometry.bitmap, "bitmap"));
  }
  if (pico) {
    const std::uint64_t words = (c.geometry.blocks + 63) / 64;
    byte_vector region(static_cast<std::size_t>(std::min<std::uint64_t>(
        c.geometry.qmask - c.geometry.bitmap, words * armored_word)));
    WEIR_CHECK(c.device->read(c.geometry.bitmap, region));
    bits->bits = from_armored(region, c.geometry.blocks);
  } else {
    const std::uint64_t bytes = (c.geometry.blocks + 7) / 8;
    // The number of blocks comes from the superblock, so the memory is limited first.
    if (bytes > largest_bitmap) {
      return error(errc::unsupported,
                   fmt::format("cannot open the volume: expected a bitmap of at "
                               "most {} bytes, found {}",
                               largest_bitmap, bytes))
          .located(c.place(c.geometry.bitmap, "bitmap"));
    }
    bits->bits.resize(static_cast<std::size_t>(bytes));
    WEIR_CHECK(scan(*c.device, c.geometry.bitmap, c.geometry.bitmap + bytes, 1,
                    [&](std::uint64_t offset, bytes_view piece) {
                      std::memcpy(bits->bits.data() + (offset - c.geometry.bitmap),
                                  piece.data(), piece.size());
                    }));
  }
  c.bits = std::move(bits);
  return {};
}

/// Returns whether a directory slot was never used. Such a slot reads as zeros in all of
/// its bytes, the checksum included.
bool all_zero(bytes_view bytes) noexcept {
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < anchor_bytes; i += 8) {
    seen |= load_le<std::uint64_t>(bytes.data() + i);
  }
  return seen == 0;
}

/// Reads the directory: slots in use with a good and with a bad checksum. The order is
/// that of the slots.
result<void> read_directory(const core& c) {
  const std::uint64_t end = c.slot_offset(c.slots());
  // Pieces begin at multiples of an entry, so no entry is divided.
  return scan(*c.device, c.geometry.cortex, end, anchor_bytes,
              [&](std::uint64_t offset, bytes_view piece) {
                for (std::size_t i = 0; i + anchor_bytes <= piece.size();
                     i += anchor_bytes) {
                  const bytes_view bytes = piece.subspan(i, anchor_bytes);
                  if (all_zero(bytes)) {
                    continue;
                  }
                  entry e;
                  e.slot = (offset + i - c.geometry.cortex) / anchor_bytes;
                  const bool good = load_anchor(bytes, e.a);
                  // Damaged entries are kept apart, because look-ups and checks need to
                  // know their slots.
                  (good ? c.entries : c.damaged).push_back(e);
                }
              });
}

/// Adds a warning for every damaged entry.
void warn_of_damage(core& c) {
  for (const entry& e : c.damaged) {
    c.warnings.push_back(
        fmt::format("directory entry at byte {} (slot {}) has a bad checksum",
                    c.slot_offset(e.slot), e.slot));
  }
}

}  // namespace

/// Returns "FILE:OFFSET (THING)" for errors.
std::string core::place(std::uint64_t offset, const std::string& thing) const {
  return fmt::format("{}:{} ({})", device->name(), offset, thing);
}

// Each word has 8 bytes of bits, a check byte and 7 unused bytes. The check bytes are
// verified only by a check of the volume.
//
// `blocks` is the number of blocks of the volume. Words behind the end of the region
// count as zeros.
byte_vector from_armored(bytes_view region, std::uint64_t blocks) {
  byte_vector bits(static_cast<std::size_t>((blocks + 7) / 8));
  for (std::size_t word = 0; (word + 1) * armored_word <= region.size(); ++word) {
    const std::size_t byte = word * 8;
    if (byte >= bits.size()) {
      break;
    }
    std::memcpy(bits.data() + byte, region.data() + word * armored_word,
                std::min<std::size_t>(8, bits.size() - byte));
  }
  return bits;
}

/// Inverse of `from_armored`. Bytes behind the last word are zero.
byte_vector to_armored(const block_bits& bits, std::size_t region_bytes) {
  byte_vector region(region_bytes);
  for (std::size_t word = 0; (word + 1) * armored_word <= region.size(); ++word) {
    const std::size_t byte = word * 8;
    if (byte >= bits.bits.size()) {
      break;
    }
    std::byte* to = region.data() + word * armored_word;
    std::memcpy(to, bits.bits.data() + byte,
                std::min<std::size_t>(8, bits.bits.size() - byte));
    to[8] = static_cast<std::byte>(ecc_of(load_le<std::uint64_t>(to)));
  }
  return region;
}

// Several readers may ask at the same time; one of them reads.
//
// Lists of an attempt that failed are dropped first, so the next call begins anew.
result<void> core::need_directory() const {
  const std::lock_guard lock(directory_mutex);
  if (directory_read) {
    return {};
  }
  entries.clear();
  damaged.clear();
  WEIR_CHECK(read_directory(*this));
  directory_read = true;
  return {};
}

// The order matters: every step relies on what the steps before it have checked. Nothing
// is written before everything has been read.
result<std::shared_ptr<core>> mount(std::shared_ptr<block_device> device,
                                    const mount_options& options) {
  auto c = std::make_shared<core>();
  c->device = std::move(device);
  c->strict = options.strict;
  c->examine = options.examine;
  // The vote elects the superblock.
  WEIR_CHECK(vote(*c));
  c->state = c->sb.state;
  WEIR_CHECK(check_volume_geometry(*c));
  WEIR_CHECK(check_epoch(*c));
  WEIR_CHECK(check_state(*c));
  c->writable = options.mode == device_mode::writable;
  // A volume that is read-only for a permanent reason cannot be opened for writing at
  // all.
  if (c->writable && !c->read_only_reason.empty() && !c->recoverable) {
    return hn4_error(hn4_code::access_denied,
                     fmt::format("cannot open \"{}\" for writing: {}", c->device->name(),
                                 c->read_only_reason),
                     errc::unsupported)
        .located(c->place(0, "superblock"))
        .hint("open it for reading, and put its tags into a new volume");
  }
  WEIR_CHECK(read_bits(*c));
  // Only an ordinary reader can do without the directory, and only with a valid index.
  if (c->writable || c->strict || c->examine || !load_index(*c)) {
    WEIR_CHECK(c->need_directory());
    warn_of_damage(*c);
  }
  // Removes what a crash has left, or refuses.
  if (c->writable && !c->read_only_reason.empty()) {
    WEIR_CHECK(recover(*c));
  }
  if (c->writable) {
    // Stores and removals that were interrupted are known before the first change.
    WEIR_CHECK(find_unfinished(*c));
    // Files that a killed repair or a killed writer of the index has left.
    if (c->device->modified_ns() != 0) {  // the device is a file
      WEIR_CHECK(hn4_remove_leftovers(c->device->name()));
      WEIR_CHECK(remove_index_leftovers(index_path(*c)));
    }
  }
  return c;
}

}  // namespace weir::storage::hn4
