// SPDX-License-Identifier: Apache-2.0
/// @file
/// Derives the allocation of blocks from the directory, and writes bits and entries.
///
/// Freeing is the dangerous direction: a bit that is cleared too early lets another store
/// overwrite live data. `free_blocks` therefore clears the bits of the entries that end,
/// and then sets the bits of all live entries again.
///
/// Three sources say that a block is in use: the bitmap on the device, live entries, and
/// the metadata of the volume. `allocation_of` joins them once, when a volume is opened
/// for writing.
#include "hn4/write/allocation.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace weir::storage::hn4 {

namespace {

/// Bytes of the bitmap that are compared and written together: a sector. A sector is
/// written in whole or not at all by usual media.
constexpr std::size_t bitmap_unit = 512;

/// Visits the block of a long name.
///
/// The pointer of a chain counts sectors. Blocks outside the data region come from
/// damage and are skipped.
void visit_name_block(const core& c, const anchor& a,
                      const std::function<void(std::uint64_t)>& visit) {
  if (!a.has(class_bits::extended)) {
    return;
  }
  const std::uint64_t block =
      load_le<std::uint64_t>(a.name.data()) / (c.geometry.block / c.geometry.sector);
  if (block >= c.space.flux && block < c.geometry.blocks) {
    visit(block);
  }
}

/// Visits every block that bears the identity of a shard of another writer. That writer
/// chose orbits freely, so all of them are searched.
///
/// It costs a read for each possible place, which is accepted because such shards are
/// rare on volumes that this writer changes.
void visit_foreign(const core& c, const anchor& a,
                   const std::function<void(std::uint64_t)>& visit) {
  const std::uint64_t blocks = blocks_for(c.geometry, a.mass);
  if (blocks > c.geometry.blocks) {
    return;  // no stream can contain the shard
  }
  const trajectory path(c.space, a);
  std::array<std::byte, header_bytes> head{};
  // Places of one block: the hinted one first, then all orbits, each once.
  for (std::uint64_t n = 0; n < blocks; ++n) {
    std::vector<std::uint64_t> places;
    if (const auto hinted = path.block(n)) {
      places.push_back(*hinted);
    }
    for (unsigned k = 0; k < orbits; ++k) {
      const auto block =
          ballistic(c.space, a.gravity, a.orbit_vector, n, a.fractal_scale, k);
      if (block && *block < c.geometry.blocks &&
          std::find(places.begin(), places.end(), *block) == places.end()) {
        places.push_back(*block);
      }
    }
    // Only the header tells which of the places is in use. There may be several.
    for (const std::uint64_t block : places) {
      if (c.device->read(block * c.geometry.block, head) &&
          names_itself(head, a.seed, n)) {
        visit(block);
      }
    }
  }
}

}  // namespace

// The root is the entry of the volume itself and has no blocks.
bool is_root(const anchor& a) noexcept {
  return a.seed == hn4_id{UINT64_MAX, UINT64_MAX};
}

/// Calls `visit` with the numbers of all blocks that the entry names. Shards of this
/// writer lie on orbit 0, so their blocks are computed; others are searched.
void for_each_block(const core& c, const anchor& a,
                    const std::function<void(std::uint64_t)>& visit) {
  visit_name_block(c, a, visit);
  if (!group_of(a)) {
    visit_foreign(c, a, visit);
    return;
  }
  const std::uint64_t blocks =
      // A damaged length may be larger than the volume.
      std::min(c.geometry.blocks, blocks_for(c.geometry, a.mass));
  const trajectory path(c.space, a);
  for (std::uint64_t n = 0; n < blocks; ++n) {
    if (const auto block = path.block(n)) {
      visit(*block);
    }
  }
}

// The bitmap on the device is the start, because blocks of lost shards must stay
// allocated until their tag is stored again or removed.
//
// A bit is cleared only if a trace proves that the block belongs to a removed shard of
// this writer, or if the whole volume is from this writer and sound, and nothing
// accounts for the block.
result<block_bits> allocation_of(const core& c) {
  WEIR_TRY(const auto traces, c.loss_traces());
  block_bits bits = *c.bits;
  // This copy is used for writing, which trusts the bits of PICO volumes, too.
  bits.blind = false;
  // True if every entry is from this writer and nothing is lost.
  const bool ours =
      c.damaged.empty() && traces->empty() &&
      std::all_of(c.entries.begin(), c.entries.end(), [](const entry& e) {
        return role_of(e.a) == entry_role::ended || is_root(e.a) || group_of(e.a);
      });
  for (std::size_t i = 0; i < bits.bits.size(); ++i) {
    const std::byte stray = ours ? traces->stray.bits[i] : std::byte{0};
    bits.bits[i] &= ~(traces->removed.bits[i] | stray);
  }
  reserve_metadata(c.geometry, bits);
  // The entries have the last word.
  for (const entry& e : c.entries) {
    if (e.a.live() && !is_root(e.a)) {
      for_each_block(c, e.a, [&](std::uint64_t block) { bits.set(block); });
    }
  }
  return bits;
}

// Two shards may claim one block on a damaged volume; it stays allocated as long as one
// of them lives.
//
// `gone` are entries of `c.entries`, or entries equal to them; they are recognised by
// their slots. The order is important: first clear, then set again what others need.
void free_blocks(const core& c, const std::vector<entry>& gone, block_bits& bits) {
  std::vector<std::uint64_t> slots;
  for (const entry& e : gone) {
    for_each_block(c, e.a, [&](std::uint64_t block) { bits.clear(block); });
    slots.push_back(e.slot);
  }
  std::sort(slots.begin(), slots.end());
  reserve_metadata(c.geometry, bits);
  for (const entry& e : c.entries) {
    if (e.a.live() && !is_root(e.a) &&
        !std::binary_search(slots.begin(), slots.end(), e.slot)) {
      for_each_block(c, e.a, [&](std::uint64_t block) { bits.set(block); });
    }
  }
}

// The search stops at the first run that is long enough, which keeps data near the start
// of the volume.
//
// Returns the longest run if none is long enough, so that a caller can take a part or
// report how much there is. `begin` and `end` are block numbers.
free_run free_run_in(const block_bits& bits, std::uint64_t begin, std::uint64_t end,
                     std::uint64_t blocks) noexcept {
  free_run best;
  // A byte of the bitmap is skipped at once if all its blocks are taken.
  for (std::uint64_t b = begin; b < end;) {
    if (b % 8 == 0 && bits.bits[static_cast<std::size_t>(b / 8)] == std::byte{0xFF}) {
      b += 8;
      continue;
    }
    // Counts the run from here, but not beyond what is needed.
    free_run run{b, 0};
    while (b < end && run.blocks < blocks && !bits.marked(b)) {
      ++run.blocks;
      ++b;
    }
    if (run.blocks > best.blocks) {
      best = run;
    }
    if (best.blocks >= blocks) {
      break;
    }
    // A block in use; a run that was counted ends at one, too.
    b += run.blocks == 0 ? 1 : 0;
  }
  return best;
}

// The bitmap of a PICO volume may be too small for all blocks.
//
// Data end where the horizon region begins.
std::uint64_t end_of_data(const hn4_geometry& g) noexcept {
  const std::uint64_t horizon = g.horizon / g.block;
  if (g.profile != hn4_profile::pico) {
    return horizon;
  }
  return std::min(horizon, (g.qmask - g.bitmap) / armored_word * 64);
}

/// Marks superblocks, the regions in front of the data, the log and everything behind
/// it.
void reserve_metadata(const hn4_geometry& g, block_bits& bits) {
  const std::uint64_t bs = g.block;
  const copy_places places = places_of_copies(g.capacity, g.block);
  const std::uint64_t copy = align_up(std::uint64_t{superblock_bytes}, bs) / bs;
  // Superblock, epochs, directory, bitmap and quality mask.
  bits.set_range(0, g.flux / bs);
  bits.set_range(places.east / bs, places.east / bs + copy);
  // The South copy lies behind the start of the log, so the last range covers it.
  bits.set_range(places.west / bs, places.west / bs + copy);
  bits.set_range(g.journal / bs, g.blocks);
}

// Only changed sectors are written, so that a store touches few of them.
//
// `c.bits_on_device` is what the device has, which differs from `c.bits` while work is
// unfinished. It changes only after all writes have succeeded.
result<void> write_bits(core& c, const block_bits& bits) {
  byte_vector before, after;
  bytes_view old_bytes = c.bits_on_device->bits, new_bytes = bits.bits;
  // A PICO bitmap is compared in its stored form, with its check bytes.
  if (c.geometry.profile == hn4_profile::pico) {
    const auto region = static_cast<std::size_t>(c.geometry.qmask - c.geometry.bitmap);
    before = to_armored(*c.bits_on_device, region);
    after = to_armored(bits, region);
    old_bytes = before;
    new_bytes = after;
  }
  bool same = true;
  for (std::size_t offset = 0; offset < new_bytes.size(); offset += bitmap_unit) {
    const bytes_view now =
        new_bytes.subspan(offset, std::min(bitmap_unit, new_bytes.size() - offset));
    if (std::memcmp(now.data(), old_bytes.data() + offset, now.size()) != 0) {
      WEIR_CHECK(c.device->write(c.geometry.bitmap + offset, now));
      same = false;
    }
  }
  // Nothing was written, so nothing needs to become durable.
  if (same) {
    return {};
  }
  c.bits_on_device = std::make_shared<const block_bits>(bits);
  return c.device->sync();
}

/// Not durable by itself; `write_entries` ends with a sync.
result<void> write_anchor(core& c, const anchor& a, std::uint64_t slot) {
  std::array<std::byte, anchor_bytes> bytes{};
  store_anchor(a, bytes);
  return c.device->write(c.slot_offset(slot), bytes);
}

/// All entries are durable when the call returns. The order among them is not fixed, so
/// callers use several calls where the order matters.
result<void> write_entries(core& c, const std::vector<entry>& entries) {
  if (entries.empty()) {
    return {};
  }
  for (const entry& e : entries) {
    WEIR_CHECK(write_anchor(c, e.a, e.slot));
  }
  return c.device->sync();
}

std::vector<entry> as_tombstones(std::vector<entry> entries) {
  for (entry& e : entries) {
    e.a = as_tombstone(e.a);
  }
  return entries;
}

// The identity stays, so that blocks of the shard are known to be free. Everything that a
// look-up uses is erased.
anchor as_tombstone(anchor a) {
  a.data_class = (a.data_class & ~class_bits::extended) | class_bits::tombstone;
  if (group_of(a)) {
    a.public_id = public_id_of({0, 1, 0, false, false, false});
  }
  a.mass = 0;
  a.gravity = 0;
  a.tag_filter = 0;
  a.name = {};
  return a;
}

// A long name whose entry is lost is recognised by its text: what follows the fragment
// that the entry held.
result<void> free_lost_names(const core& c, std::string_view tag,
                             const resolved_tag& found, block_bits& bits) {
  if (found.lost.empty() || tag.size() <= fragment_bytes) {
    return {};
  }
  WEIR_TRY(const auto traces, c.loss_traces());
  for (const orphan_name& name : traces->names) {
    if (name.text == tag.substr(fragment_bytes)) {
      bits.clear(name.byte / c.geometry.block);
    }
  }
  return {};
}

// What remains of a shard of this writer says nothing that is still needed.
bool is_reusable(const anchor& a) noexcept {
  return !a.live() && a.has(class_bits::tombstone) && group_of(a) && a.mass == 0 &&
         a.tag_filter == 0;
}

// The slot that a look-up of the identity ends at may be in use; the entry then goes into
// the next free one. If every slot was used at some time, remains of shards are replaced.
//
// A tombstone with the identity of a lost shard tells later openings that its blocks may
// be freed. Shards whose identity is not known cannot be treated so.
result<std::vector<entry>> tombstones_of(const core& c, const resolved_tag& found,
                                         std::set<std::uint64_t> used) {
  // Slots of the store itself, of entries and of damaged entries are not free.
  std::set<std::uint64_t> needed = used;
  for (const auto* list : {&c.entries, &c.damaged}) {
    for (const entry& e : *list) {
      used.insert(e.slot);
      if (list == &c.damaged || !is_reusable(e.a)) {
        needed.insert(e.slot);
      }
    }
  }
  std::vector<entry> tombstones;
  for (const lost_shard& lost : found.lost) {
    if (!lost.seed) {
      continue;
    }
    entry e;
    e.a.seed = *lost.seed;
    e.a.data_class = class_bits::valid;
    e.a.public_id = public_id_of({});
    e.a = as_tombstone(e.a);
    e.slot = lost.slot;
    const std::set<std::uint64_t>& taken = used.size() < c.slots() ? used : needed;
    if (taken.size() >= c.slots()) {
      return error(errc::no_space,
                   fmt::format("cannot note that shards of the tag are lost: expected a "
                               "free slot in the directory, found all {} in use",
                               c.slots()))
          .located(c.place(c.geometry.cortex, "directory"));
    }
    // Ends, since a slot is free.
    while (taken.contains(e.slot)) {
      e.slot = (e.slot + 1) % c.slots();
    }
    used.insert(e.slot);
    needed.insert(e.slot);
    tombstones.push_back(e);
  }
  return tombstones;
}

// `entries` stays sorted by slot: existing slots are overwritten, new ones are merged in.
//
// Damaged entries in these slots are gone. Traces are dropped, because they describe the
// old state.
void adopt_entries(core& c, std::vector<entry> changed) {
  for (const entry& e : changed) {
    std::erase_if(c.damaged, [&](const entry& d) { return d.slot == e.slot; });
  }
  const auto by_slot = [](const entry& x, const entry& y) { return x.slot < y.slot; };
  std::sort(changed.begin(), changed.end(), by_slot);
  const auto old_end = static_cast<std::ptrdiff_t>(c.entries.size());
  for (const entry& e : changed) {
    const auto place =
        std::lower_bound(c.entries.begin(), c.entries.begin() + old_end, e, by_slot);
    // Only the old part is sorted, so the search stays inside of it.
    if (place != c.entries.begin() + old_end && place->slot == e.slot) {
      place->a = e.a;
    } else {
      c.entries.push_back(e);
    }
  }
  std::inplace_merge(c.entries.begin(), c.entries.begin() + old_end, c.entries.end(),
                     by_slot);
  c.traces = nullptr;
}

/// After a failed write the device is in a state that only an opening can examine, so
/// this volume refuses all later writes.
error write_failed(core& c, std::string action, error cause) {
  c.writable = false;
  c.read_only_reason = "an earlier write failed; open the volume again";
  const errc code = cause.code();
  return error(code, fmt::format("cannot {} in \"{}\": expected every write to succeed, "
                                 "found one that did not",
                                 action, c.device->name()))
      .because(std::move(cause));
}

}  // namespace weir::storage::hn4
