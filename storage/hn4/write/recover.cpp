// SPDX-License-Identifier: Apache-2.0
/// @file
/// Makes a volume clean that a crash left unclean or whose epoch entry has a bad
/// checksum.
///
/// Only volumes that a crash has left are recovered: unclean state, bad checksum of the
/// epoch entry. The bits are rebuilt as the reference implementation would, and corrected
/// by what the directory says. Other reasons to be read-only stay, because they may hide
/// real damage.
#include <fmt/core.h>

#include "hn4/write/allocation.hpp"
#include "weir/base/hash.hpp"

namespace weir::storage::hn4 {

namespace {

/// Writes a valid epoch entry. The one on the device is kept, apart from its checksum, if
/// its number is right.
result<void> mend_epoch(core& c) {
  const std::uint64_t offset = c.sb.epoch_block * c.geometry.block;
  std::array<std::byte, epoch_bytes> entry{};
  WEIR_CHECK(c.device->read(offset, entry));
  if (load_le<std::uint64_t>(entry.data()) == c.sb.epoch_id) {
    store_le(entry.data() + 124, crc32(0, bytes_view(entry).first(124)));
  } else {
    entry = make_epoch(c.sb.epoch_id, c.sb.mount_time);
  }
  return c.device->write(offset, entry);
}

}  // namespace

// North is written last: as long as it is the old one, a crash leaves a volume that opens
// as before.
//
// The copies that are written before are newer than North, and an opening elects them.
result<void> write_superblocks(block_device& device, const superblock& sb) {
  byte_vector bytes(superblock_bytes);
  store_superblock(sb, bytes);
  const copy_places places = places_of_copies(sb.capacity, sb.block);
  for (const std::uint64_t offset : {places.south, places.west, places.east}) {
    if (offset != 0) {
      WEIR_CHECK(device.write(offset, bytes));
    }
  }
  return device.write(0, bytes);
}

// Bits and epoch entry are durable before a superblock says that the volume is clean.
//
// Called while a volume is opened for writing. `c` describes the clean volume
// afterwards.
result<void> recover(core& c) {
  // Bits that the reference implementation would set, without the special rule for PICO.
  block_bits found = *rebuilt_bits(c);
  const bool blind = found.blind;
  found.blind = false;
  c.bits_on_device = c.bits;
  c.bits = std::make_shared<const block_bits>(std::move(found));
  WEIR_TRY(block_bits bits, allocation_of(c));
  WEIR_CHECK(write_bits(c, bits));
  WEIR_CHECK(mend_epoch(c));
  WEIR_CHECK(c.device->sync());
  // The generation makes these copies win against older ones.
  c.sb.state = state_bits::clean | state_bits::zeroed;
  c.sb.generation += 1;
  WEIR_CHECK(write_superblocks(*c.device, c.sb));
  WEIR_CHECK(c.device->sync());
  bits.blind = blind;
  c.bits = std::make_shared<const block_bits>(std::move(bits));
  c.warnings.push_back(fmt::format("recovered before writing: {}", c.read_only_reason));
  c.read_only_reason.clear();
  // The directory in memory is unchanged, but traces depend on the bits.
  c.unclean = false;
  c.traces = nullptr;
  c.state = c.sb.state;
  return {};
}

}  // namespace weir::storage::hn4
