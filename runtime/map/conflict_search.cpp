// SPDX-License-Identifier: Apache-2.0
/// @file
/// Who must end before an access may start: RAW, WAW and WAR, without what is ordered
/// already.
#include "map/conflict_search.hpp"

#include <algorithm>
#include <array>

namespace weir::runtime {

task_id conflict_search::find_lone_writer(const access& a, const question& q) {
  const access_entry* const e = map_.only_writer(a.bytes);
  if (e == nullptr) {
    return 0;
  }
  const task_id id = e->task;
  const task_id floor = e->lo <= a.bytes.lo && a.bytes.hi <= e->hi ? id : 0;
  if (q.prune && a.bytes.lo <= e->lo && e->hi <= a.bytes.hi) {
    map_.prune_only_writer(a.bytes);
  }
  predecessors_.add(id, q.why);
  return floor;
}

task_id conflict_search::find_writers(const access& a, const question& q) {
  if (map_.lone_writer(a.bytes)) {
    return find_lone_writer(a, q);
  }
  if (!map_.near(a.bytes, true)) {
    return find_far_writers(a, q);
  }
  task_id floor = 0;
  std::array<task_id, region_index::room> found;
  std::size_t count = 0;
  map_.near_conflicts(a.bytes, true, [&](access_ref ref, const access_entry& e) {
    if (is_companion(a, q, ref, e)) {
      return false;
    }
    found[count++] = e.task;
    if (e.task > floor && !e.any_order && map_.covering(ref, a.bytes)) {
      floor = e.task;
    }
    return q.prune && map_.covered_by(a.bytes, ref);
  });
  // What is older than a writer of all these bytes is ordered before that writer already.
  for (std::size_t i = 0; i < count; ++i) {
    add_from(found[i], q.why, floor);
  }
  return floor;
}

task_id conflict_search::find_far_writers(const access& a, const question& q) {
  task_id floor = 0;
  found_.clear();
  map_.conflicts(a.bytes, true, [&](access_ref ref, const access_entry& e) {
    if (is_companion(a, q, ref, e)) {
      return false;
    }
    found_.push_back(e.task);
    if (e.task > floor && !e.any_order && map_.covering(ref, a.bytes)) {
      floor = e.task;
    }
    return q.prune && map_.covered_by(a.bytes, ref);
  });
  for (const task_id id : found_) {
    add_from(id, q.why, floor);
  }
  return floor;
}

void conflict_search::find_readers(const access& a, const question& q, task_id floor) {
  if (!map_.near(a.bytes, false)) {
    find_far_readers(a, q, floor);
    return;
  }
  map_.near_conflicts(a.bytes, false, [&](access_ref ref, const access_entry& e) {
    add_from(e.task, q.why, floor);
    return q.prune && map_.covered_by(a.bytes, ref);
  });
}

void conflict_search::find_far_readers(const access& a, const question& q,
                                       task_id floor) {
  map_.conflicts(a.bytes, false, [&](access_ref ref, const access_entry& e) {
    add_from(e.task, q.why, floor);
    return q.prune && map_.covered_by(a.bytes, ref);
  });
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
      look_up(a, prune, &a == grouped);
      ++count;
    }
  }
  return count;
}

void conflict_search::look_up(const access& a, bool prune, bool any_order) {
  if (const task_id failed = map_.failure_in(a.bytes); failed != 0) {
    failure_ = failure_ == 0 ? failed : std::min(failure_, failed);
  }
  // Companions do not follow each other: each must find what all of them follow, and
  // none stands for the others.
  const bool prunes = prune && a.mode != access_mode::read && !any_order;
  const hazard after_writers = a.mode == access_mode::write ? hazard::waw : hazard::raw;
  const task_id floor = find_writers(a, {after_writers, prunes, any_order});
  if (a.mode != access_mode::read) {
    find_readers(a, {hazard::war, prunes, any_order}, floor);
  }
}

}  // namespace weir::runtime
