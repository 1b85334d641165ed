// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks the directory: the root, the slots of entries, names, filters and order.
///
/// The checks use `list_names`, as readers do, and add what readers do not look at:
/// whether look-ups find every entry, filters, order, repeated entries, and what killed
/// processes have left.
#include <fmt/core.h>

#include <algorithm>

#include "hn4/check/checker.hpp"
#include "hn4/write/allocation.hpp"
#include "weir/storage/hn4_code.hpp"

namespace weir::storage::hn4 {

namespace {

/// Returns "directory slot N".
std::string slot_text(const entry& e) {
  return fmt::format("directory slot {}", e.slot);
}

/// Returns whether an entry is the root that a format writes. The values are those of
/// the specification for slot 0.
bool root_is_good(const anchor& a) {
  return is_root(a) && a.public_id == a.seed &&
         a.data_class == (class_bits::valid | class_bits::is_static) &&
         a.orbit_vector == 1 && (a.permissions & 0x37U) == 0x37U && a.mass == 0 &&
         a.tag_filter == 0 && inline_name(a) == "ROOT";
}

}  // namespace

// A block in use must not belong to the volume itself, and the bitmap must reach it.
// Blocks that two shards claim are found later, when all claims are known. `user` names
// the owner in messages. The block is recorded even if it is a fault, so that overlaps
// are complete.
void checker::claim(std::uint64_t block, const std::string& user) {
  const std::uint64_t byte = block * c.geometry.block;
  if (reserved.marked(block)) {
    find("overlap", byte,
         fmt::format("{} lies on a block of the volume's own structures", user));
  }
  // Each word of a PICO bitmap covers 64 blocks.
  if (c.geometry.profile == hn4_profile::pico &&
      block >= (c.geometry.qmask - c.geometry.bitmap) / armored_word * 64) {
    find("pico_limit", byte,
         fmt::format("{} lies where the bitmap does not reach", user));
  }
  claimed.push_back(block);
}

// Checks that a look-up finds the entry: it starts at the hash of the identity and ends
// at the first empty slot.
//
// `occupied` lists the slots in use, sorted, damaged ones included: a reader goes on
// over a damaged slot.
void checker::slot_of(const entry& e, const std::vector<std::uint64_t>& occupied) {
  const std::uint64_t slots = c.slots();
  const std::uint64_t start = slot_hash(e.a.seed) % slots;
  // Distance in slots, with the end of the table joined to its beginning.
  const std::uint64_t distance = (e.slot + slots - start) % slots;
  bool reachable = distance < max_probes;
  for (std::uint64_t i = 0; reachable && i < distance; ++i) {
    reachable = std::binary_search(occupied.begin(), occupied.end(), (start + i) % slots);
  }
  if (!reachable) {
    find("slot", c.slot_offset(e.slot),
         fmt::format("{}: expected an entry reachable from slot {}, found {} slots "
                     "between",
                     slot_text(e), start, distance));
  }
}

// Checks the name of an entry and its filter.
//
// `name` stays empty if it cannot be read. An error of this function ends the check;
// faults of the name do not.
result<void> checker::name_of(const entry& e, std::string& name) {
  const std::uint64_t offset = c.slot_offset(e.slot);
  auto full = name_of_entry(c, e.a);
  if (!full) {
    find("name", offset, fmt::format("{}: {}", slot_text(e), full.error().text()));
    return {};
  }
  name = full->text;
  // A long name has a block of its own, which must be allocated and belong to this entry
  // alone.
  if (e.a.has(class_bits::extended)) {
    if (full->block == 0) {
      find("name", offset,
           fmt::format("{}: expected a long name, found a pointer that leads nowhere",
                       slot_text(e)));
    } else {
      const std::uint64_t block = full->block / c.geometry.block;
      if (repeated.count(e.slot) == 0) {
        claim(block, fmt::format("long name \"{}\"", name));
      }
      if (!c.bits->marked(block)) {
        find("bitmap", full->block,
             fmt::format("long name \"{}\": expected an allocated block, found a free "
                         "one",
                         name));
      }
    }
  }
  // A filter that lacks bits of the name hides the entry from look-ups.
  if (name.empty()) {
    find("name", offset, fmt::format("{}: expected a name, found none", slot_text(e)));
  } else if (e.a.tag_filter != tag_mask(name)) {
    find("filter", offset,
         fmt::format("{}: expected filter {:#x} for \"{}\", found {:#x}", slot_text(e),
                     tag_mask(name), name, e.a.tag_filter));
  }
  return {};
}

// Checks length and generation of an entry.
//
// Both are 0 in no shard that a writer has finished.
void checker::entry_of(const entry& e, const std::string& name) {
  const std::uint64_t offset = c.slot_offset(e.slot);
  if (e.a.mass == 0) {
    find("mass", offset,
         fmt::format("shard of \"{}\" in {}: expected at least 1 byte, found 0", name,
                     slot_text(e)));
  }
  if (e.a.write_gen == 0) {
    find("generation", offset,
         fmt::format("shard of \"{}\" in {}: expected a generation from 1, found 0", name,
                     slot_text(e)));
  }
}

// Checks that identities occur once and that creation times agree with their order.
void checker::order_of(const listed_tag& tag) {
  std::vector<entry> shards = tag.entries.shards;
  // `shards` has each shard once. The repeated entries are added, so that each pair
  // becomes visible.
  for (const entry& e : c.entries) {
    if (repeated.count(e.slot) != 0 &&
        std::any_of(shards.begin(), shards.end(),
                    [&](const entry& x) { return x.a.seed == e.a.seed; })) {
      shards.push_back(e);
    }
  }
  std::stable_sort(shards.begin(), shards.end(), [](const entry& x, const entry& y) {
    return x.a.seed != y.a.seed ? x.a.seed < y.a.seed : x.slot < y.slot;
  });
  for (std::size_t i = 1; i < shards.size(); ++i) {
    // Neighbours of the sorted list show both kinds of fault.
    const entry &x = shards[i - 1], &y = shards[i];
    if (x.a.seed == y.a.seed) {
      find("duplicate", c.slot_offset(y.slot),
           fmt::format("tag \"{}\": one shard stands in directory slots {} and {}",
                       tag.tag.name, x.slot, y.slot));
    } else if (x.a.create_clock > y.a.create_clock) {
      // Creation times count seconds, so equal ones are no contradiction.
      find("order", c.slot_offset(y.slot),
           fmt::format("tag \"{}\": creation times contradict the order of identities in "
                       "directory slots {} and {}",
                       tag.tag.name, x.slot, y.slot));
    }
  }
}

// Reports the shards that a tag has lost.
//
// Offset and length are those in the stream of the tag.
void checker::losses_of(const listed_tag& tag) {
  for (const lost_shard& lost : tag.entries.lost) {
    report.lost.push_back({tag.tag.name, lost.offset, lost.bytes});
    find("lost", c.slot_offset(lost.slot),
         fmt::format("tag \"{}\": {}", tag.tag.name, lost.text));
  }
}

// Reports what is wrong with a tag that a reader finds or would find if nothing were
// lost.
void checker::tag_of(const listed_tag& tag) {
  order_of(tag);
  losses_of(tag);
  // The tag can be read in whole.
  if (!tag.problem) {
    report.tags += 1;
  } else if (tag.entries.lost.empty()) {
    // The tag cannot be read, though no shard is known to be lost: all of it counts as
    // lost.
    report.lost.push_back({tag.tag.name, 0, tag.tag.bytes});
    find("tag", c.geometry.cortex, tag.problem->text());
  }
  for (const std::string& warning : tag.entries.warnings) {
    note("tag", c.geometry.cortex, warning);
  }
}

// Determines the places of the shards in the stream that `recover` leaves.
//
// `why_unreadable` and `lose` look the places up by the slot of the entry.
void checker::place_shards(const listed_tag& tag) {
  hn4_stream_options left;
  left.recover = true;
  const auto map = map_shards(c, tag.tag.name, {tag.entries.shards, {}}, left);
  if (!map) {
    return;
  }
  for (std::size_t i = 0; i < (*map)->shards.size(); ++i) {
    stream_places[(*map)->sources[i].slot] = {&tag.tag.name, *map,
                                              (*map)->shards[i].offset};
  }
}

// Notes what killed processes have left. It is no damage: the next store or removal
// finishes it.
void checker::find_unfinished() {
  std::uint64_t count = 0;
  // The blocks are in use until then, so they are neither orphans nor free.
  const auto hold = [&](const entry& e) {
    count += 1;
    for_each_block(c, e.a, [&](std::uint64_t block) { idle.push_back(block); });
  };
  // Shards that a later store has replaced, but whose entries are still live.
  for (const listed_tag& tag : tags) {
    for (const entry& e : tag.entries.ended) {
      if (e.a.live()) {
        ended.insert(e.slot);
        hold(e);
      }
    }
  }
  for (const entry& e : c.entries) {
    const entry_role role = role_of(e.a);
    if (role == entry_role::announced || role == entry_role::grave) {
      hold(e);
    }
  }
  if (count != 0) {
    note("unfinished", c.geometry.cortex,
         fmt::format("{} entries of stores and removals that were interrupted; the next "
                     "store or removal ends them",
                     count));
  }
}

// Finds repeated entries of one shard; the newest of them counts. `order_of` reports
// them.
//
// A process that was killed between two writes of an entry may leave two of them.
void checker::find_repeated() {
  std::map<hn4_id, const entry*> newest;
  for (const entry& e : c.entries) {
    if (e.slot == 0 || !e.a.live()) {
      continue;
    }
    const auto [known, is_new] = newest.emplace(e.a.seed, &e);
    if (is_new) {
      continue;
    }
    // The difference is signed, so that generations may wrap around at 2^32.
    const auto ahead =
        static_cast<std::int32_t>(e.a.write_gen - known->second->a.write_gen);
    repeated.insert(ahead > 0 ? known->second->slot : e.slot);
    known->second = ahead > 0 ? &e : known->second;
  }
}

// Checks every live entry that is not waiting for its end.
//
// Counts what is harmless, and reports it as notes at the end.
result<void> checker::entries() {
  std::vector<std::uint64_t> occupied;
  for (const auto* list : {&c.damaged, &c.entries}) {
    for (const entry& e : *list) {
      occupied.push_back(e.slot);
    }
  }
  std::sort(occupied.begin(), occupied.end());
  std::map<std::uint64_t, std::size_t> masks;
  std::uint64_t tombstones = 0, invalid = 0;
  for (const entry& e : c.entries) {
    if (e.slot == 0 || !e.a.live()) {
      tombstones += role_of(e.a) == entry_role::ended && e.a.has(class_bits::tombstone);
      invalid += e.slot != 0 && !e.a.has(class_bits::valid);
      continue;
    }
    if (ended.count(e.slot) != 0) {
      continue;
    }
    slot_of(e, occupied);
    std::string name;
    WEIR_CHECK(name_of(e, name));
    entry_of(e, name);
    // Counted to find filters that too many entries share.
    masks[e.a.tag_filter] += 1;
  }
  // The reference examines at most `max_candidates` entries of one filter, so it loses
  // shards of a volume with more of them.
  for (const auto& [mask, count] : masks) {
    if (count >= max_candidates) {
      find("crowd", c.geometry.cortex,
           fmt::format("filter {:#x}: expected fewer than {} shards, found {}", mask,
                       max_candidates, count));
    }
  }
  if (tombstones != 0) {
    note("tombstone", c.geometry.cortex, fmt::format("{} removed entries", tombstones));
  }
  if (invalid != 0) {
    note("entry", c.geometry.cortex, fmt::format("{} entries are not valid", invalid));
  }
  return {};
}

// Streams are determined before entries are checked, because entries that have ended are
// not.
result<void> checker::directory() {
  // Repeated entries must be known before names are listed and blocks are claimed.
  find_repeated();
  for (const entry& e : c.damaged) {
    find("anchor", c.slot_offset(e.slot),
         fmt::format("{}: the entry has a bad checksum", slot_text(e)));
  }
  const bool root = !c.entries.empty() && c.entries.front().slot == 0 &&
                    root_is_good(c.entries.front().a);
  if (!root) {
    find("root", c.geometry.cortex,
         "directory slot 0: expected the root, found something else");
  }
  WEIR_TRY(tags, list_names(c));
  find_unfinished();
  WEIR_CHECK(entries());
  for (const listed_tag& tag : tags) {
    if (tag.exists) {
      tag_of(tag);
      place_shards(tag);
    }
  }
  return {};
}

}  // namespace weir::storage::hn4
