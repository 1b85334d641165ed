// SPDX-License-Identifier: Apache-2.0
/// @file
/// Who must end before an access may start: RAW, WAW and WAR, without what is ordered
/// already.
#include "map/conflict_search.hpp"

#include <algorithm>

namespace weir::runtime {

task_id conflict_search::find_writers(const access& a, const question& q) {
  task_id floor = 0;
  candidates_.clear();
  map_.conflicts(a.bytes, true, [&](access_ref ref, const access_entry& e) {
    if (e.any_order && q.any_order && map_.same_bytes(ref, a.bytes)) {
      companion_ = e.task;
      return false;
    }
    candidates_.push_back(e.task);
    if (e.task > floor && !e.any_order && map_.covering(ref, a.bytes)) {
      floor = e.task;
    }
    const bool gone = q.prune && map_.covered_by(a.bytes, ref);
    pruned_ += static_cast<std::uint64_t>(gone);
    return gone;
  });
  // What is older than a writer of all these bytes is ordered before that writer already.
  for (const task_id id : candidates_) {
    if (id >= floor) {
      predecessors_.add(id, q.why);
    }
  }
  return floor;
}

void conflict_search::find_readers(const access& a, const question& q, task_id floor) {
  map_.conflicts(a.bytes, false, [&](access_ref ref, const access_entry& e) {
    if (e.task >= floor) {
      predecessors_.add(e.task, q.why);
    }
    const bool gone = q.prune && map_.covered_by(a.bytes, ref);
    pruned_ += static_cast<std::uint64_t>(gone);
    return gone;
  });
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
