// SPDX-License-Identifier: Apache-2.0
/// @file
/// Finds the tasks that must end before an access may start (RAW, WAW and WAR), without
/// those that are ordered before another of them.
///
/// Functions for rare cases are marked `noinline`, and those for the common case of dense
/// regions `always_inline`, so that the code of a submission stays small and without
/// calls.
///
/// Two ideas keep the list of predecessors short:
///
///   floor  the newest writer that covers all bytes of the access. Everything older is
///          ordered before it already, so only newer tasks get edges.
///   prune  a write takes its bytes from older entries. Later look-ups find the write
///          instead of them.
#include "map/conflict_search.hpp"

#include <algorithm>
#include <array>

namespace weir::runtime {

// Chooses by where the writers lie: few in their index, or many in the grid.
[[gnu::noinline]] task_id conflict_search::find_writers(const access& a,
                                                        const lookup_parameters& q) {
  return map_.near(a.bytes, true) ? find_near_writers(a, q) : find_far_writers(a, q);
}

// Visits the writers from old to new, so the last one that covers the bytes is the
// newest. Edges are added after the visit, because only then the floor is known.
task_id conflict_search::find_near_writers(const access& a, const lookup_parameters& q) {
  task_id floor = 0;
  std::array<task_id, region_index::inline_capacity> found;
  std::size_t count = 0;
  map_.near_conflicts(a.bytes, true, [&](access_ref, access_entry& e) {
    if (is_companion(a, q, e)) {
      return false;
    }
    found[count++] = e.task;
    if (!e.any_order() && map_.covering(e, a.bytes)) {
      floor = e.task;  // the newest so far, since the visit goes from old to new
    }
    return q.prune && map_.take(a.bytes, e);
  });
  // Tasks older than the floor are ordered before it, so they get no edge.
  for (std::size_t i = 0; i < count; ++i) {
    add_writer(found[i], q.why, floor);
  }
  return floor;
}

// The grid visits in no fixed order, so the floor is the newest covering writer found.
task_id conflict_search::find_far_writers(const access& a, const lookup_parameters& q) {
  task_id floor = 0;
  found_.clear();
  map_.conflicts(a.bytes, true, [&](access_ref, access_entry& e) {
    if (is_companion(a, q, e)) {
      return false;
    }
    found_.push_back(e.task);
    if (e.task > floor && !e.any_order() && map_.covering(e, a.bytes)) {
      floor = e.task;
    }
    return q.prune && map_.take(a.bytes, e);
  });
  for (const task_id id : found_) {
    add_writer(id, q.why, floor);
  }
  return floor;
}

// Adds the readers that conflict with a write, and with `prune` removes the written bytes
// from them.
[[gnu::noinline]] void conflict_search::find_readers(const access& a, bool prune,
                                                     task_id floor) {
  map_.conflicts(a.bytes, false, [&](access_ref, access_entry& e) {
    add_reader(e.task, floor);
    return prune && map_.take(a.bytes, e);
  });
}

// An entry with a footprint or a group needs the exact test.
[[gnu::noinline]] bool conflict_search::find_reader(const access& a, task_id floor,
                                                    access_entry& e) {
  return map_.meets(a.bytes, e, [&](access_ref, access_entry& met) {
    add_reader(met.task, floor);
    return map_.take(a.bytes, met);
  });
}

namespace {

/// Returns why a task waits for earlier writers of bytes that it writes.
hazard after_writers(const access& a) noexcept {
  return a.mode == access_mode::write ? hazard::waw : hazard::raw;
}

}  // namespace

// A plain dense write. An index with a single entry needs one comparison. All others are
// filtered: entries of retired tasks are dropped, and written bytes are taken from the
// rest.
[[gnu::always_inline]] inline void conflict_search::look_up_dense_write(
    const access& a, region_index& readers, region_index& writers) {
  const std::uint64_t oldest = map_.oldest_tag();
  const std::int64_t lo = a.bytes.lo;
  const std::int64_t hi = a.bytes.hi;
  task_id floor = 0;
  // The common case of a program that writes whole regions again and again.
  if (access_entry* const e = writers.only_plain(); e != nullptr) {
    if (e->tag >= oldest && e->meets(lo, hi)) {
      map_.count_candidate();
      predecessors_.add(e->task, after_writers(a));
      floor = e->lo <= lo && hi <= e->hi ? e->task : 0;
      if (e->take(lo, hi)) {
        map_.count_pruned();
        writers.prune_only();
      }
    }
  } else if (!writers.empty()) {
    floor = find_writers(a, {after_writers(a), true, false});
  }
  if (readers.in_grid()) {
    find_readers(a, true, floor);
    return;
  }
  // Returning true drops the entry from the index.
  readers.filter([&](access_entry& e) {
    if (e.tag < oldest) {
      return true;
    }
    const bool all = lo <= e.lo && e.hi <= hi;
    if (!all && !e.meets(lo, hi)) {
      return false;
    }
    if (!e.plain()) {
      return find_reader(a, floor, e);
    }
    map_.count_candidate();
    add_reader(e.task, floor);
    if (!all && !e.take(lo, hi)) {
      return false;
    }
    map_.count_pruned();
    return true;
  });
}

[[gnu::noinline]] void conflict_search::look_up_write(const access& a, bool prune,
                                                      bool any_order) {
  // Companions commute with each other. Each must find what all of them follow, so a
  // companion takes no bytes from older accesses.
  const bool prunes = prune && !any_order;
  if (prunes && a.bytes.dense()) {
    look_up_dense_write(a, map_.index_of(a.bytes.id, false),
                        map_.index_of(a.bytes.id, true));
    return;
  }
  const task_id floor = find_writers(a, {after_writers(a), prunes, any_order});
  find_readers(a, prunes, floor);
}

// A plain dense read conflicts with writers only, and takes no bytes from them.
[[gnu::always_inline]] inline void conflict_search::look_up_dense_read(
    const access& a, region_index& writers, std::uint64_t oldest) {
  if (access_entry* const e = writers.only_plain(); e != nullptr) {
    if (e->tag >= oldest && e->meets(a.bytes.lo, a.bytes.hi)) {
      map_.count_candidate();
      predecessors_.add(e->task, hazard::raw);
    }
  } else if (!writers.empty()) {
    find_writers(a, {hazard::raw, false, false});
  }
}

void conflict_search::look_up_read(const access& a) {
  region_index& writers = map_.index_of(a.bytes.id, true);
  if (a.bytes.dense()) {
    look_up_dense_read(a, writers, map_.oldest_tag());
  } else if (!writers.empty()) {
    find_writers(a, {hazard::raw, false, false});
  }
}

// Every mode other than read changes bytes and conflicts with readers, too.
void conflict_search::look_up_one(const access& a, bool prune, bool any_order) {
  if (a.mode == access_mode::read) {
    look_up_read(a);
  } else {
    look_up_write(a, prune, any_order);
  }
}

// Keeps the oldest failure behind all bytes that the task accesses, whether it reads or
// writes them, so that the result does not depend on the order of the accesses.
[[gnu::noinline]] void conflict_search::note_failures(std::span<const access> accesses) {
  for (const access& a : accesses) {
    const task_id failed = is_ordered(a) ? map_.failure_in(a.bytes) : 0;
    if (failed != 0) {
      failure_ = failure_ == 0 ? failed : std::min(failure_, failed);
    }
  }
}

[[gnu::noinline]] void conflict_search::prefetch(
    std::span<const access> accesses) const noexcept {
  for (const access& a : accesses) {
    if (is_ordered(a)) {
      map_.prefetch(a.bytes);
    }
  }
}

// The counters are added up at the end, because a look-up may count many candidates.
void conflict_search::look_up(const access& a, bool prune, bool any_order) {
  if (map_.has_failures()) {
    note_failures({&a, 1});
  }
  look_up_one(a, prune, any_order);
  map_.publish_counts();
}

// Prefetching pays only if accesses are in the grid. Otherwise they lie in the index
// itself.
std::uint32_t conflict_search::look_up_all(std::span<const access> accesses, bool prune,
                                           const access* grouped) {
  if (map_.in_grid()) {
    prefetch(accesses);
  }
  if (map_.has_failures()) {
    note_failures(accesses);
  }
  std::uint32_t count = 0;
  for (const access& a : accesses) {
    if (is_ordered(a)) {
      look_up_one(a, prune, &a == grouped);
      ++count;
    }
  }
  map_.publish_counts();
  return count;
}

// Looks up and registers one strided access.
[[gnu::noinline]] void conflict_search::enter_steps(const access& a, task_id task) {
  look_up_one(a, true, false);
  map_.insert_next(a.bytes, a.mode != access_mode::read, task, false);
}

[[gnu::noinline]] void conflict_search::enter_dense_write(const access& a, task_id task) {
  region_index* const both = map_.indexes_of(a.bytes.id);
  look_up_dense_write(a, both[0], both[1]);
  map_.insert_dense(both[1], a.bytes, task);
}

// Looks each access up and registers it at once, which saves a second pass.
void conflict_search::enter_plain(std::span<const access> accesses, task_id task) {
  map_.reserve(accesses.size());
  if (map_.in_grid()) {
    prefetch(accesses);
  }
  if (map_.has_failures()) {
    note_failures(accesses);
  }
  // Later accesses of a task find the earlier ones of the same task. The list of
  // predecessors ignores those.
  const std::uint64_t oldest = map_.oldest_tag();
  for (const access& a : accesses) {
    if (!a.bytes.dense()) {
      enter_steps(a, task);
    } else if (a.mode == access_mode::read) {
      region_index* const both = map_.indexes_of(a.bytes.id);
      look_up_dense_read(a, both[1], oldest);
      map_.insert_dense(both[0], a.bytes, task);
    } else {
      enter_dense_write(a, task);
    }
  }
  map_.publish_counts();
}

// Called after all look-ups of the task, so the task does not find itself.
std::uint32_t conflict_search::insert_all(std::span<const access> accesses, task_id task,
                                          const access* grouped) {
  map_.reserve(accesses.size());
  std::uint32_t count = 0;
  for (const access& a : accesses) {
    if (is_ordered(a)) {
      map_.insert_next(a.bytes, a.mode != access_mode::read, task, &a == grouped);
      ++count;
    }
  }
  return count;
}

}  // namespace weir::runtime
