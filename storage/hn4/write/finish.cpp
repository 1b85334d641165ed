// SPDX-License-Identifier: Apache-2.0
/// @file
/// Finishes what killed processes have begun: a store that counts gets all of its
/// entries, entries that a store or a removal has ended become tombstones, and the blocks
/// of the latter become free.
///
/// The state on the device tells exactly how far a killed process came, because every
/// step was durable before the next one began. A store that counts and a removal that has
/// its grave are completed; a store that does not count is undone.
#include <algorithm>

#include "hn4/directory/directory.hpp"
#include "hn4/write/allocation.hpp"

namespace weir::storage::hn4 {

namespace {

/// Returns the high half of the identity of shard 0 of the store. It identifies the
/// store.
///
/// All shards of one store have consecutive identities, so the difference is the same
/// for each of them.
std::uint64_t store_of(const anchor& a) {
  return a.seed.hi - group_of(a).value().index;
}

/// Finds the entries of stores that do not count. Their names are not read, because these
/// may never have reached the device.
///
/// A store counts once one of its entries is live.
std::vector<entry> never_counted(const core& c) {
  std::set<std::uint64_t> stores;
  for (const entry& e : c.entries) {
    if (e.a.live() && group_of(e.a)) {
      stores.insert(store_of(e.a));
    }
  }
  std::vector<entry> found;
  for (const entry& e : c.entries) {
    if (role_of(e.a) == entry_role::announced && stores.count(store_of(e.a)) == 0) {
      found.push_back(e);
    }
  }
  return found;
}

/// Finds the filters of names that may have unfinished work. Reading a name takes a read
/// of the device, so names are read only if the entries of a filter show a sign:
/// announced entries, graves, two generations, or shards of another writer beside a store
/// that replaced such shards.
std::set<std::uint64_t> filters_to_look_at(const core& c) {
  std::set<std::uint64_t> filters, over_foreign;
  std::map<std::uint64_t, std::uint32_t> generations;
  for (const entry& e : c.entries) {
    const entry_role role = role_of(e.a);
    const auto mark = group_of(e.a);
    if (role == entry_role::announced || role == entry_role::grave) {
      // Each of these is a sign by itself.
      filters.insert(e.a.tag_filter);
    } else if (role == entry_role::live && mark) {
      // Two generations under one filter may be a store and the one that it replaces.
      const auto [known, is_new] = generations.emplace(e.a.tag_filter, e.a.write_gen);
      if (!is_new && known->second != e.a.write_gen) {
        filters.insert(e.a.tag_filter);
      }
      if (mark->over_foreign) {
        over_foreign.insert(e.a.tag_filter);
      }
    }
  }
  // Foreign shards that such a store has replaced are waiting for their end.
  for (const entry& e : c.entries) {
    if (e.a.live() && !group_of(e.a) && over_foreign.count(e.a.tag_filter) != 0) {
      filters.insert(e.a.tag_filter);
    }
  }
  return filters;
}

/// Adds an entry with the mark that another group continues it.
///
/// The mark is written after the entries of the new group, so it may be missing after a
/// crash.
void add_grown(unfinished_work& work, entry e) {
  group_mark mark = group_of(e.a).value();
  mark.grown = true;
  e.a.public_id = public_id_of(mark);
  work.live.push_back(e);
}

/// Adds the work of one name. A tag that is damaged stays as it is, so that a check still
/// finds the damage.
///
/// With a misnamed entry, the graves stay, since they may still be needed for it.
void add_work(unfinished_work& work, const named_entries& named,
              const resolved_tag& found) {
  work.ended.insert(work.ended.end(), found.ended.begin(), found.ended.end());
  if (named.misnamed.empty()) {
    work.graves.insert(work.graves.end(), named.graves.begin(), named.graves.end());
  }
  // Making entries of a damaged tag live would hide what it has lost.
  if (!found.lost.empty()) {
    return;
  }
  for (entry e : found.announced) {
    e.a = made_live(e.a);
    work.live.push_back(e);
  }
  if (found.grown) {
    add_grown(work, *found.grown);
  }
}

/// Determines all unfinished work.
///
/// Only the names that show a sign are read. A name that cannot be resolved is left
/// alone.
result<unfinished_work> work_of(const core& c) {
  unfinished_work work;
  work.ended = never_counted(c);
  const auto filters = filters_to_look_at(c);
  if (!filters.empty()) {
    WEIR_TRY(const auto names, all_names(c, &filters));
    for (const auto& [name, named] : names) {
      if (const auto found = resolve_tag(c, name, named)) {
        add_work(work, named, *found);
      }
    }
  }
  // An entry may be found in two ways; it is written once.
  const auto by_slot = [](const entry& x, const entry& y) { return x.slot < y.slot; };
  std::stable_sort(work.ended.begin(), work.ended.end(), by_slot);
  work.ended.erase(
      std::unique(work.ended.begin(), work.ended.end(),
                  [](const entry& x, const entry& y) { return x.slot == y.slot; }),
      work.ended.end());
  return work;
}

}  // namespace

// Allocation is determined after the announced entries have become live and before the
// ended ones are erased, since both still name their blocks.
//
// Works in memory only: the first write to the volume carries it out. So opening a
// volume for writing and closing it changes nothing.
result<void> find_unfinished(core& c) {
  c.bits_on_device = c.bits;
  WEIR_TRY(unfinished_work work, work_of(c));
  // Announced entries that count are live from now on.
  adopt_entries(c, work.live);
  WEIR_TRY(block_bits bits, allocation_of(c));
  std::vector<entry> gone = work.ended;
  gone.insert(gone.end(), work.graves.begin(), work.graves.end());
  if (!gone.empty()) {
    free_blocks(c, gone, bits);
  }
  bits.blind = c.bits->blind;
  c.bits = std::make_shared<const block_bits>(std::move(bits));
  // The entries in memory are those that `finish` will write.
  work.ended = as_tombstones(std::move(work.ended));
  work.graves = as_tombstones(std::move(work.graves));
  adopt_entries(c, work.ended);
  adopt_entries(c, work.graves);
  // Nothing is kept if nothing is to be done.
  if (!work.live.empty() || !work.ended.empty() || !work.graves.empty()) {
    c.unfinished = std::move(work);
  }
  return {};
}

// Each step is durable before the next begins. So blocks stay allocated as long as an
// entry names them, and a grave stays as long as an entry that it removes.
//
// Called before the first change of a volume. Calling it without unfinished work writes
// only bits that differ.
result<void> finish(core& c) {
  const unfinished_work work = c.unfinished.value_or(unfinished_work{});
  // The order: complete, allocate, erase, and the graves at last.
  WEIR_CHECK(write_entries(c, work.live));
  WEIR_CHECK(write_bits(c, *c.bits));
  WEIR_CHECK(write_entries(c, work.ended));
  WEIR_CHECK(write_entries(c, work.graves));
  c.unfinished.reset();
  return {};
}

}  // namespace weir::storage::hn4
