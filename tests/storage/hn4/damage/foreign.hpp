// SPDX-License-Identifier: Apache-2.0
/// @file
/// Makes shards look as if a writer had stored them that does not number its shards.
#pragma once

#include "hn4/directory/directory.hpp"
#include "hn4/write/allocation.hpp"
#include "storage/hn4/support.hpp"

namespace weir::storage::test {

/// Gives the shards of a tag identities of another writer and removes their marks. The
/// directory then says about them what the reference implementation would say. Every
/// block must lie on orbit 0, where this writer puts it.
inline void make_foreign(block_device& device, const std::string& tag) {
  const auto core = or_throw(hn4::mount(std::make_shared<borrowed_device>(device)));
  std::set<std::uint64_t> taken;
  for (const hn4::entry& e : core->entries) {
    taken.insert(e.slot);
  }
  const auto write_entry = [&](const hn4::anchor& a, std::uint64_t slot) {
    std::array<std::byte, hn4::anchor_bytes> bytes{};
    hn4::store_anchor(a, bytes);
    or_throw(device.write(core->slot_offset(slot), bytes));
  };
  for (const hn4::entry& e : or_throw(hn4::entries_named(*core, tag)).live) {
    hn4::anchor a = e.a;
    a.seed.lo = ~a.seed.lo;
    a.public_id = {};
    const hn4::trajectory path(core->space, a);
    for (std::uint64_t n = 0; n < hn4::blocks_for(core->geometry, a.mass); ++n) {
      const std::uint64_t byte = *path.block(n) * core->geometry.block;
      std::array<std::byte, hn4::header_bytes> head{};
      or_throw(device.read(byte, head));
      hn4::block_header h = hn4::load_header(head);
      h.well = a.seed;
      hn4::store_header(h, head);
      or_throw(device.write(byte, head));
    }
    std::uint64_t slot = hn4::slot_hash(a.seed) % core->slots();
    while (!taken.insert(slot).second) {
      slot = (slot + 1) % core->slots();
    }
    write_entry(a, slot);
    write_entry(hn4::as_tombstone(e.a), e.slot);
  }
}

}  // namespace weir::storage::test
