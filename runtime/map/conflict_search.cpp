// SPDX-License-Identifier: Apache-2.0
/// @file
/// Who must end before an access may start: RAW, WAW and WAR, without what is ordered
/// already.
#include "map/conflict_search.hpp"

#include <algorithm>
#include <array>

namespace weir::runtime {

[[gnu::always_inline]] inline task_id conflict_search::find_writers(const access& a,
                                                                    const question& q) {
  if (!map_.alone(a.bytes, true)) {
    return map_.near(a.bytes, true) ? find_near_writers(a, q) : find_far_writers(a, q);
  }
  access_entry* const e = map_.only(a.bytes, true);
  if (e == nullptr || (e->any_order() && is_companion(a, q, *e))) {
    return 0;
  }
  const task_id id = e->task;
  predecessors_.add(id, q.why);
  const task_id floor =
      !q.needs_floor || e->any_order() || !map_.covering(*e, a.bytes) ? 0 : id;
  if (q.prune && map_.take(a.bytes, *e)) {
    map_.prune_only(a.bytes, true);
  }
  return floor;
}

[[gnu::noinline]] task_id conflict_search::find_near_writers(const access& a,
                                                             const question& q) {
  task_id floor = 0;
  std::array<task_id, region_index::room> found;
  std::size_t count = 0;
  map_.near_conflicts(a.bytes, true, [&](access_ref, access_entry& e) {
    if (is_companion(a, q, e)) {
      return false;
    }
    found[count++] = e.task;
    if (!e.any_order() && map_.covering(e, a.bytes)) {
      floor = e.task;  // the newest so far
    }
    return q.prune && map_.take(a.bytes, e);
  });
  // What is older than a writer of all these bytes is ordered before that writer already.
  for (std::size_t i = 0; i < count; ++i) {
    add_from(found[i], q.why, floor);
  }
  return floor;
}

[[gnu::noinline]] task_id conflict_search::find_far_writers(const access& a,
                                                            const question& q) {
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
    add_from(id, q.why, floor);
  }
  return floor;
}

inline void conflict_search::find_readers(const access& a, const question& q,
                                          task_id floor) {
  if (!map_.near(a.bytes, false)) {
    find_far_readers(a, q, floor);
    return;
  }
  map_.near_conflicts(a.bytes, false, [&](access_ref, access_entry& e) {
    add_from(e.task, q.why, floor);
    return q.prune && map_.take(a.bytes, e);
  });
}

[[gnu::noinline]] void conflict_search::find_far_readers(const access& a,
                                                         const question& q,
                                                         task_id floor) {
  map_.conflicts(a.bytes, false, [&](access_ref, access_entry& e) {
    add_from(e.task, q.why, floor);
    return q.prune && map_.take(a.bytes, e);
  });
}

[[gnu::noinline]] void conflict_search::note_failure(const access& a) {
  if (const task_id failed = map_.failure_in(a.bytes); failed != 0) {
    failure_ = failure_ == 0 ? failed : std::min(failure_, failed);
  }
}

[[gnu::noinline]] void conflict_search::look_up_write(const access& a, bool prune,
                                                      bool any_order) {
  // Companions do not follow each other: each must find what all of them follow, and
  // none stands for the others.
  const bool prunes = prune && !any_order;
  const hazard after_writers = a.mode == access_mode::write ? hazard::waw : hazard::raw;
  const task_id floor = find_writers(a, {after_writers, prunes, any_order, true});
  find_readers(a, {hazard::war, prunes, any_order, true}, floor);
}

[[gnu::always_inline]] inline void conflict_search::look_up_one(const access& a,
                                                                bool prune,
                                                                bool any_order) {
  if (map_.has_failures()) {
    note_failure(a);
  }
  if (a.mode == access_mode::read) {
    find_writers(a, {hazard::raw, false, false, false});
  } else {
    look_up_write(a, prune, any_order);
  }
}

void conflict_search::look_up(const access& a, bool prune, bool any_order) {
  look_up_one(a, prune, any_order);
  map_.publish_counts();
}

std::uint32_t conflict_search::look_up_all(std::span<const access> accesses, bool prune,
                                           const access* grouped) {
  if (map_.in_grid()) {
    for (const access& a : accesses) {
      if (is_ordered(a)) {
        map_.prefetch(a.bytes);
      }
    }
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
