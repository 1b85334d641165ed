// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks superblocks, layout, epoch, log and quality mask.
///
/// Everything is compared with what `mkfs` of this writer makes. Where other writers may
/// differ without harm, the difference is a note. Nothing here is needed to read data: a
/// reader accepts a volume with any of these findings, as long as one superblock and the
/// layout are sound.
#include <fmt/core.h>

#include <algorithm>

#include "hn4/check/checker.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/utf8.hpp"

namespace weir::storage::hn4 {

namespace {

/// Values that a format writes.
constexpr std::uint32_t version = 0x00060006;
constexpr std::uint32_t endian_tag = 0x11223344;
/// The words at the begin and at the end of an entry of the log.
constexpr std::uint64_t log_magic = 0x4C43494E4F524843U;
constexpr std::uint64_t log_tail = 0xCAFEBABE12345678U;

}  // namespace

// Compares the fields of the superblock with those that a format writes. All values
// belong to the elected superblock, and findings name its offset.
void checker::fields() {
  const superblock& sb = c.sb;
  const auto expect = [&](const char* kind, std::uint64_t found, std::uint64_t wanted,
                          const char* field) {
    if (found != wanted) {
      find(kind, c.elected_at,
           fmt::format("{}: expected {:#x}, found {:#x}", field, wanted, found));
    }
  };
  expect("version", sb.version, version, "version of the superblock");
  expect("endian", sb.endian, endian_tag, "endian tag of the superblock");
  // A volume of this writer is always closed cleanly, with its regions zeroed.
  expect("state", sb.state, state_bits::clean | state_bits::zeroed, "state");
  // Bit 0 of the compatible features may be set.
  expect("features", sb.compatible & ~std::uint64_t{1}, 0, "compatible features");
  expect("features", sb.incompatible, 0, "incompatible features");
  expect("features", sb.read_only_compatible, 0, "read-only features");
  expect("features", sb.hardware, 0, "hardware features");
  expect("intent", sb.mount_intent, 0, "mount intent");
  expect("dirty_bits", sb.dirty_bits, 0, "dirty bits");
  // A shorter image has lost its end; a longer one was copied to a larger device.
  if (sb.capacity != device_size) {
    find("size", c.elected_at,
         fmt::format("size of the image: expected {} bytes, found {}", sb.capacity,
                     device_size));
  }
  // A rewritten superblock is the ordinary result of mounting by another writer.
  if (sb.generation > 1) {
    note("generation", c.elected_at,
         fmt::format("the superblock was rewritten {} times", sb.generation - 1));
  }
}

// Checks the bytes of a superblock that a format leaves zero. Offsets are those of
// section "superblock" in the layout of `disk.hpp`. Each range names the first byte that
// is not zero.
void checker::zeros(bytes_view sb) {
  constexpr std::size_t label = 0x0D0, label_end = 0x0F0;
  const auto zero = [&](const char* kind, std::size_t begin, std::size_t end) {
    const bytes_view part = sb.subspan(begin, end - begin);
    const auto other = std::find_if(part.begin(), part.end(),
                                    [](std::byte b) { return b != std::byte{0}; });
    // One finding per range is enough.
    if (other != part.end()) {
      const std::size_t offset = begin + static_cast<std::size_t>(other - part.begin());
      find(kind, c.elected_at + offset,
           fmt::format("byte {:#x} of the superblock: expected 0, found {:#x}", offset,
                       std::to_integer<unsigned>(*other)));
    }
  };
  // The label has 31 bytes at most; behind it, the field is zero.
  zero("label", label + std::min<std::size_t>(c.sb.label.size(), 31), label_end);
  if (!is_utf8(c.sb.label)) {
    find("label", c.elected_at + label, "label: expected UTF-8, found other bytes");
  }
  zero("padding", 0x078, 0x080);  // the sentinel cursor
  zero("padding", 0x108, 0x110);  // the boot map
  // All the rest up to the checksum.
  zero("padding", 0x118, superblock_bytes - 4);
}

// Compares the layout with the one that a format computes for profile and capacity.
// Places that a reader can use but a format would not choose are still a fault, because
// other programs compute places instead of reading them.
void checker::layout() {
  const hn4_geometry& g = c.geometry;
  if (static_cast<std::uint32_t>(g.profile) > 7) {
    find("profile", c.elected_at,
         fmt::format("profile: expected 0 to 7, found {}", c.sb.profile));
    return;
  }
  // Tape is device type 3 and has a profile of its own.
  const bool tape = g.profile == hn4_profile::archive;
  if (c.sb.device_type > 3 || (tape && c.sb.device_type != 3)) {
    find("medium", c.elected_at,
         fmt::format("device type: expected {}, found {}", tape ? "3" : "0 to 3",
                     c.sb.device_type));
  }
  // `lay_out` fails for a capacity that is too small for any layout.
  const auto wanted = lay_out(g.profile, g.capacity, g.sector);
  if (!wanted || wanted->cortex != g.cortex || wanted->bitmap != g.bitmap ||
      wanted->qmask != g.qmask || wanted->flux != g.flux ||
      wanted->horizon != g.horizon || wanted->journal != g.journal ||
      wanted->block != g.block || c.sb.stream_lba != c.sb.horizon_lba) {
    find("layout", c.elected_at,
         "places of the regions: expected those of the profile and capacity, found "
         "others");
  }
}

// Compares all copies with the elected one. A copy must have the same bytes, not only a
// good checksum, since a reader may elect any of them.
result<void> checker::superblocks() {
  fields();
  layout();
  byte_vector elected(superblock_bytes), copy(superblock_bytes);
  WEIR_CHECK(c.device->read(c.elected_at, elected));
  zeros(elected);
  // Small volumes have no South copy; its place is then 0.
  const copy_places places = places_of_copies(c.sb.capacity, c.sb.block);
  std::vector<std::uint64_t> all{0};
  if (c.sb.device_type != 2) {  // zoned media have only the North copy
    all.insert(all.end(), {places.east, places.west});
    if (places.south != 0) {
      all.push_back(places.south);
    }
  }
  for (const std::uint64_t offset : all) {
    if (offset == c.elected_at) {
      continue;
    }
    // The fields of the copy are not needed.
    superblock ignored;
    // The text stays if the copy cannot be read at all.
    std::optional<std::string> why = "expected 8192 bytes, found the end of the device";
    if (c.device->read(offset, copy)) {
      why = load_superblock(copy, ignored);
    }
    if (why) {
      find("superblock_copy", offset, fmt::format("superblock copy: {}", *why));
    } else if (copy != elected) {
      find("superblock_copy", offset,
           "superblock copy: expected the same bytes as the elected one, found others");
    }
  }
  return {};
}

// Checks the current epoch entry, and notes older ones. The superblock names the block
// of its current entry, which must lie in the ring between the superblock and the
// directory.
result<void> checker::epoch() {
  const hn4_geometry& g = c.geometry;
  const std::uint64_t offset = c.sb.epoch_block * g.block;
  if (c.sb.epoch_block >= g.blocks || offset < g.epoch || offset >= g.cortex) {
    find("epoch", c.elected_at,
         fmt::format("epoch entry: expected it in the ring at byte {}, found block {}",
                     g.epoch, c.sb.epoch_block));
    return {};
  }
  std::array<std::byte, epoch_bytes> entry{};
  WEIR_CHECK(c.device->read(offset, entry));
  // The checksum covers all bytes before it.
  const std::uint32_t actual = crc32(0, bytes_view(entry).first(124));
  const std::uint32_t stored = load_le<std::uint32_t>(entry.data() + 124);
  if (stored != actual) {
    find("epoch", offset,
         fmt::format("checksum of the epoch entry: expected {:#010x}, found {:#010x}",
                     actual, stored));
  }
  // The entry and the superblock must agree about the number of the epoch.
  const std::uint64_t id = load_le<std::uint64_t>(entry.data());
  if (id != c.sb.epoch_id) {
    find("epoch", offset,
         fmt::format("epoch entry: expected id {}, found {}", c.sb.epoch_id, id));
  }
  // Limits the reads for volumes with a large ring.
  constexpr std::uint64_t max_entries = 4096;
  const std::uint64_t end = std::min(g.cortex, g.epoch + max_entries * g.block);
  std::uint64_t older = 0;
  for (std::uint64_t other = g.epoch; other < end; other += g.block) {
    if (other != offset && c.device->read(other, entry)) {
      // An entry that was never written reads as zero.
      older += load_le<std::uint64_t>(entry.data()) != 0 ? 1 : 0;
    }
  }
  if (older != 0) {
    note("epoch", g.epoch, fmt::format("{} older epoch entries", older));
  }
  return {};
}

// Checks the log: every entry names its own sector and the checksum of the entry before.
// The chain begins with the checksum 0. The first entry that does not continue it ends
// the check, since nothing behind it can be judged.
result<void> checker::log() {
  const std::uint64_t ss = c.geometry.sector;
  const std::uint64_t begin = c.geometry.journal, end = c.geometry.capacity;
  std::uint64_t next = 0;
  // The product is checked, since the number comes from the medium.
  if (!checked_mul(c.sb.journal_next, ss, next) || next < begin || next >= end) {
    find("log", c.elected_at,
         fmt::format("log: expected the next entry between bytes {} and {}, found sector "
                     "{}",
                     begin, end, c.sb.journal_next));
    return {};
  }
  byte_vector sector(static_cast<std::size_t>(ss));
  std::uint32_t before = 0;
  std::uint64_t count = 0;
  for (std::uint64_t offset = begin; offset < next; offset += ss, ++count) {
    WEIR_CHECK(c.device->read(offset, sector));
    const std::byte* p = sector.data();
    const std::uint32_t crc = crc32(0, bytes_view(sector).first(0x3C));
    // An entry takes a whole sector. Its last word repeats the checksum, mixed with a
    // constant, so that a torn sector is found.
    const bool good = load_le<std::uint64_t>(p) == log_magic &&
                      load_le<std::uint64_t>(p + 0x28) == offset / ss &&
                      load_le<std::uint32_t>(p + 0x38) == before &&
                      load_le<std::uint32_t>(p + 0x3C) == crc &&
                      load_le<std::uint64_t>(p + ss - 8) == (crc ^ log_tail);
    if (!good) {
      find("log", offset,
           fmt::format("log: entry {} does not continue the chain", count));
      return {};
    }
    // The next entry holds the checksum of this whole sector.
    before = crc32(0, sector);
  }
  if (count != 0) {
    note("log", begin, fmt::format("the log holds {} entries in a whole chain", count));
  }
  return {};
}

// The mask of a new volume is filled with one value up to the data region. The mask has
// two bits per block. Bytes behind its end are reserved, so differences there are notes.
result<void> checker::quality() {
  const hn4_geometry& g = c.geometry;
  // First byte behind the mask proper.
  const std::uint64_t end = g.qmask + (g.blocks + 3) / 4;
  std::uint64_t wrong = 0, behind = 0, first = UINT64_MAX;
  // Counts a run of bytes that differ, divided at the end of the mask.
  const auto differ = [&](std::uint64_t offset, std::uint64_t count) {
    const std::uint64_t before = offset < end ? std::min(count, end - offset) : 0;
    wrong += before;
    behind += count - before;
    first = std::min(first, offset);
  };
  // The mask of a large volume is read in pieces of 1 MiB, and holes are skipped.
  byte_vector piece(std::size_t{1} << 20);
  for (std::uint64_t offset = g.qmask; offset < g.flux;) {
    WEIR_TRY(const extent data, c.device->next_data(offset, g.flux));
    // Without further data the rest is a hole.
    const std::uint64_t next = data.size != 0 ? data.offset : g.flux;
    if (next > offset) {
      differ(offset, next - offset);  // a hole reads as zeros
    }
    for (offset = next; offset < data.end() && data.size != 0; offset += piece.size()) {
      const auto n = static_cast<std::size_t>(
          std::min<std::uint64_t>(piece.size(), data.end() - offset));
      WEIR_CHECK(c.device->read(offset, mutable_bytes(piece).first(n)));
      // The value of a block of good quality, `silver`, in all four places of a byte.
      for (std::size_t i = 0; i < n; ++i) {
        if (piece[i] != silver) {
          differ(offset + i, 1);
        }
      }
    }
    offset = data.size != 0 ? data.end() : g.flux;
  }
  if (wrong != 0) {
    find("quality", first,
         fmt::format("quality mask: expected 0xAA, found {} other bytes", wrong));
  }
  if (behind != 0) {
    note("quality", first,
         fmt::format("{} bytes behind the quality mask are not 0xAA", behind));
  }
  return {};
}

}  // namespace weir::storage::hn4
