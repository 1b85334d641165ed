// SPDX-License-Identifier: Apache-2.0
/// @file
/// Plans a store. Nothing is written here, so a store that is refused changes nothing.
///
/// The plan is made in memory from the directory and the bits: what is replaced, how the
/// source is cut into shards, where their blocks and names go, their identities and their
/// slots. The last step computes the allocation after the old shards are gone.
///
/// A planner is used once and belongs to one call of `put_below`. Its results are public
/// members, which put.cpp writes.
#include "hn4/write/plan.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "weir/base/hash.hpp"
#include "weir/storage/hn4_code.hpp"

namespace weir::storage::hn4 {

namespace {

/// Flags of the entries that this writer makes. Bit 6 has no name here.
constexpr std::uint64_t shard_class =
    class_bits::matrix | 1U << 6 | class_bits::valid | class_bits::weights;
constexpr std::uint32_t read_write = 3;

}  // namespace

// Continues the newest group of the tag with a new one, for an append.
//
// `continued` are the shards of the tag, in any order. If the newest of them are from
// another writer, the group says `after_foreign` instead of a distance.
result<void> planner::continue_group(const std::vector<entry>& continued) {
  continued_shards_ = continued.size();
  std::uint32_t top = 0;
  for (const entry& e : continued) {
    // New shards may not look older than those before them.
    earliest_clock_ = std::max(earliest_clock_, e.a.create_clock);
    const auto mark = group_of(e.a);
    // The newest generation is the one to continue; its first entry gets the mark.
    if (mark && e.a.write_gen >= top) {
      top = e.a.write_gen;
      if (!grown || grown->a.write_gen < top) {
        grown = e;
      }
    }
  }
  distance_ = grown ? generation_ - top : group_mark::after_foreign;
  // The distance has 15 bits.
  if (grown && distance_ >= group_mark::after_foreign) {
    return error(errc::out_of_range,
                 fmt::format("cannot append to tag \"{}\": expected fewer than {} stores "
                             "since the last one, found {}",
                             tag_, group_mark::after_foreign, distance_));
  }
  return {};
}

// Makes the error for a tag that exists although it must not.
//
// The location is the slot of the first shard.
error planner::exists(const resolved_tag& found) const {
  const std::uint64_t slot =
      found.shards.empty() ? found.lost.front().slot : found.shards.front().slot;
  return hn4_error(
             hn4_code::exists,
             fmt::format(
                 "cannot store tag \"{}\": expected no tag of that name, found one{}",
                 tag_, found.lost.empty() ? "" : " that has lost shards"))
      .located(c_.place(c_.slot_offset(slot), fmt::format("directory slot {}", slot)))
      .hint("replace it (--replace) or append to it (--append)");
}

// Determines what the store replaces or continues, and its generation, which is higher
// than any before.
//
// The entries that end are in `replaced` (they name blocks) and `discarded` (they do
// not).
result<void> planner::collect() {
  bits = *c_.bits;
  bits.blind = false;
  WEIR_TRY(const named_entries named, entries_named(c_, tag_));
  auto found = resolve_tag(c_, tag_, named);
  // A tag that cannot be resolved can only be replaced.
  if (!found && options_.existing != hn4_existing::replace) {
    return std::move(found).error();
  }
  const resolved_tag known = found ? std::move(*found) : resolved_tag{};
  if (options_.existing == hn4_existing::refuse &&
      (!known.shards.empty() || !known.lost.empty())) {
    return exists(known);
  }
  // An append would put new shards behind a hole.
  if (options_.existing == hn4_existing::append && !known.lost.empty()) {
    return refusal_of(c_, tag_, known.lost.front());
  }
  replaced = entries_of_tag(named, known);
  // Entries with bad checksums that bear the name end as well.
  WEIR_TRY(discarded, damaged_named(c_, tag_));
  lost_ = known;
  for (const entry& e : replaced) {
    if (e.a.write_gen == UINT32_MAX) {
      return error(
          errc::out_of_range,
          fmt::format("cannot replace tag \"{}\": expected a generation below 2^32-1",
                      tag_));
    }
    generation_ = std::max(generation_, e.a.write_gen + 1);
  }
  // The shards that are continued stay.
  if (options_.existing == hn4_existing::append && !known.shards.empty()) {
    std::erase_if(replaced, [&](const entry& e) {
      return std::any_of(known.shards.begin(), known.shards.end(),
                         [&](const entry& k) { return k.slot == e.slot; });
    });
    return continue_group(known.shards);
  }
  return {};
}

// Searches from the end of the last run on, so that a store of many shards does not
// search from the start each time; then from the start.
//
// Returns the longest run if none has `blocks` blocks.
free_run planner::run_for(std::uint64_t blocks) {
  const std::uint64_t end = end_of_data(c_.geometry);
  if (cursor_ > c_.space.flux) {
    const free_run next = free_run_in(bits, cursor_, end, blocks);
    if (next.blocks >= blocks) {
      return next;
    }
  }
  return free_run_in(bits, c_.space.flux, end, blocks);
}

// Makes the error for a lack of free blocks. `whole` says that they must be in one run.
//
// The number that was found is that of the longest run.
error planner::full(std::uint64_t bytes, bool whole) {
  const std::uint64_t blocks = blocks_for(c_.geometry, bytes);
  return hn4_error(
             hn4_code::no_space,
             fmt::format("cannot store tag \"{}\": expected {} free blocks{} for {} "
                         "bytes, found {}",
                         tag_, blocks, whole ? " in a row" : "", bytes,
                         run_for(blocks).blocks))
      .located(c_.place(c_.geometry.bitmap, "bitmap"))
      .hint(whole ? "use more shards, compact the volume, or make a larger one"
                  : "remove tags, or make a larger volume");
}

// Plans a shard for the next `bytes` of the source. If no run is long enough, the shard
// gets fewer bytes, or the store fails if `whole` is set.
//
// The blocks are marked in `bits`, so later shards do not get them.
result<void> planner::add(std::uint64_t bytes, bool whole) {
  // A tag has a largest number of shards, older ones included.
  if (continued_shards_ + shards.size() == max_shards) {
    return hn4_error(hn4_code::tag_overflow,
                     fmt::format("cannot store tag \"{}\": expected at most {} shards, "
                                 "found {} bytes behind them",
                                 tag_, max_shards, bytes))
        .located(c_.device->name())
        .hint("compact the volume, and replace the tag by all of its bytes");
  }
  const std::uint64_t wanted = blocks_for(c_.geometry, bytes);
  const free_run run = run_for(wanted);
  // Nothing is free, or the shard may not become smaller.
  if (run.blocks == 0 || (whole && run.blocks < wanted)) {
    return full(bytes, whole);
  }
  planned_shard shard;
  // The last block may be filled in part.
  const std::uint64_t count = std::min(bytes, run.blocks * c_.geometry.payload);
  shard.source = source_.first(static_cast<std::size_t>(count));
  shard.first = run.first;
  source_ = source_.subspan(shard.source.size());
  cursor_ = run.first + blocks_for(c_.geometry, count);
  bits.set_range(run.first, cursor_);
  shards.push_back(shard);
  return {};
}

// Cuts the source into shards.
//
// With a fixed number, the lengths differ by one byte at most and no shard may shrink.
// Otherwise shards become as large as the free runs allow, or as `shard_bytes`.
result<void> planner::split() {
  const std::uint64_t bytes = source_.size();
  // No shard is empty.
  const std::uint64_t max_count =
      std::min<std::uint64_t>(max_shards - continued_shards_, bytes);
  if (options_.shards > max_count) {
    return hn4_error(
        hn4_code::invalid_argument,
        fmt::format("cannot store tag \"{}\": expected at most {} shards, found {}", tag_,
                    max_count, options_.shards));
  }
  if (options_.shards != 0) {
    for (std::uint64_t i = 0; i < options_.shards; ++i) {
      WEIR_CHECK(
          add(bytes / options_.shards + (i < bytes % options_.shards ? 1 : 0), true));
    }
    return {};
  }
  while (!source_.empty()) {
    const std::uint64_t limit =
        options_.shard_bytes != 0 ? options_.shard_bytes : UINT64_MAX;
    WEIR_CHECK(add(std::min<std::uint64_t>(source_.size(), limit), false));
  }
  return {};
}

// Fills the entries and finds blocks for long names.
//
// Blocks of names are allocated after all data, so they do not divide runs.
result<void> planner::name_and_place() {
  const hn4_geometry& g = c_.geometry;
  const std::uint64_t mask = tag_mask(tag_);
  for (planned_shard& s : shards) {
    s.a.tag_filter = mask;
    s.a.gravity = s.first - c_.space.flux;
    // A vector of 1 with orbit 0 makes the shard contiguous.
    s.a.orbit_vector = 1;
    s.a.mass = s.source.size();
    s.a.data_class = shard_class | (options_.compress ? class_bits::compressed : 0);
    s.a.permissions = read_write;
    s.a.write_gen = generation_;
    if (tag_.size() <= inline_name_bytes) {
      std::memcpy(s.a.name.data(), tag_.data(), tag_.size());
      continue;
    }
    // One block per entry, since each entry points to a chain of its own.
    const free_run run = run_for(1);
    if (run.blocks == 0) {
      return full(1, false);
    }
    bits.set(run.first);
    s.name_block = run.first;
    s.a.data_class |= class_bits::extended;
    // The pointer counts sectors.
    store_le(s.a.name.data(), run.first * (g.block / g.sector));
    std::memcpy(s.a.name.data() + 8, tag_.data(), fragment_bytes);
  }
  return {};
}

// Finds a slot for each shard as the reference implementation does: the first from the
// hash of its identity on. It is empty or holds what remains of a shard of this writer.
//
// Slots in use are those of live and damaged entries, and of all other entries that a
// look-up or a reader may still need.
result<void> planner::find_slots() {
  const std::uint64_t slots = c_.slots();
  std::vector<bool> taken(static_cast<std::size_t>(slots));
  for (const entry& e : c_.damaged) {
    taken[static_cast<std::size_t>(e.slot)] = true;
  }
  for (const entry& e : c_.entries) {
    taken[static_cast<std::size_t>(e.slot)] = !is_reusable(e.a);
  }
  for (planned_shard& s : shards) {
    // The counter limits the distance that look-ups must cover.
    std::uint64_t slot = slot_hash(s.a.seed) % slots;
    unsigned probes = 0;
    while (probes < max_probes && taken[static_cast<std::size_t>(slot)]) {
      slot = (slot + 1) % slots;
      ++probes;
    }
    if (probes == max_probes) {
      return hn4_error(hn4_code::no_space,
                       fmt::format("cannot store tag \"{}\": expected a free directory "
                                   "slot, found {} taken in a row",
                                   tag_, max_probes))
          .located(c_.place(c_.geometry.cortex, "directory"));
    }
    taken[static_cast<std::size_t>(slot)] = true;
    s.slot = slot;
  }
  return {};
}

// Assigns identities. They grow with every store. Their low half depends on the content,
// so that blocks of a store that was never finished are not mistaken for blocks of this
// one.
//
// The high half begins with the time in seconds, so identities also grow over volumes
// that were made later; the shards of one store have consecutive ones.
result<void> planner::identify(bytes_view whole) {
  const std::int64_t time =
      options_.time_ns.value_or(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                    std::chrono::system_clock::now().time_since_epoch())
                                    .count());
  // The field has 32 bits, and times before 1970 count as 0.
  const auto seconds =
      std::max(earliest_clock_, static_cast<std::uint32_t>(std::clamp<std::int64_t>(
                                    time / 1'000'000'000, 0, UINT32_MAX)));
  std::uint64_t high = std::uint64_t{seconds} << 24;
  // Above every identity of the directory, removed ones included.
  for (const entry& e : c_.entries) {
    if (!is_root(e.a)) {
      high = std::max(high, e.a.seed.hi);
    }
  }
  if (high >= UINT64_MAX - max_shards - 1) {
    return error(errc::out_of_range,
                 "cannot store: expected an identity above all others, found none left");
  }
  const auto content = static_cast<std::uint32_t>(xxh3_64(whole));
  // Says that shards of another writer end with this store.
  const bool over_foreign =
      std::any_of(replaced.begin(), replaced.end(),
                  [](const entry& e) { return e.a.live() && !group_of(e.a); });
  for (std::size_t i = 0; i < shards.size(); ++i) {
    anchor& a = shards[i].a;
    a.seed = identity_of(c_.sb.uuid, high + 1 + i, content);
    a.public_id = public_id_of({static_cast<std::uint32_t>(i),
                                static_cast<std::uint32_t>(shards.size()), distance_,
                                false, false, over_foreign});
    a.create_clock = seconds;
    a.mod_clock = time;
  }
  return {};
}

// Computes the bits once the replaced entries have ended.
//
// `bits_free` is what the bitmap becomes when the old shards are gone; `bits` still has
// both.
result<void> planner::free_replaced() {
  std::set<std::uint64_t> used;
  for (const planned_shard& s : shards) {
    used.insert(s.slot);
  }
  // Tombstones for shards that are lost, so that their blocks can be freed.
  WEIR_TRY(const auto tombstones, tombstones_of(c_, lost_, std::move(used)));
  discarded.insert(discarded.end(), tombstones.begin(), tombstones.end());
  bits_free = bits;
  if (!replaced.empty()) {
    free_blocks(c_, replaced, bits_free);
  }
  // An old shard of a damaged volume may claim blocks of the new ones.
  for (const planned_shard& s : shards) {
    bits_free.set_range(s.first, s.first + blocks_for(c_.geometry, s.source.size()));
    if (s.name_block != 0) {
      bits_free.set(s.name_block);
    }
  }
  return free_lost_names(c_, tag_, lost_, bits_free);
}

/// First block behind everything that the plan allocates.
std::uint64_t planner::end() const noexcept {
  std::uint64_t end = 0;
  for (const planned_shard& s : shards) {
    const std::uint64_t name = s.name_block != 0 ? s.name_block + 1 : 0;
    end = std::max({end, name, s.first + blocks_for(c_.geometry, s.source.size())});
  }
  return end;
}

// Identities depend on the shards, slots on the identities, so the order of the steps is
// fixed.
//
// Nothing is written; a failure leaves planner and volume as they were on the device.
result<void> planner::plan() {
  const bytes_view whole = source_;
  WEIR_CHECK(collect());
  WEIR_CHECK(split());
  WEIR_CHECK(name_and_place());
  WEIR_CHECK(identify(whole));
  WEIR_CHECK(find_slots());
  return free_replaced();
}

}  // namespace weir::storage::hn4
