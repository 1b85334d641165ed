// SPDX-License-Identifier: Apache-2.0
/// @file
/// Who must end before an access may start: RAW, WAW and WAR, without what is ordered
/// already.
#include "map/conflict_search.hpp"

#include <algorithm>

namespace weir::runtime {

void conflict_search::look_up_kind(const access& a, bool writers, hazard why, bool prune,
                                   task_id& floor) {
  const bool prunes = prune && a.mode != access_mode::read;
  candidates_.clear();
  covered_.clear();
  map_.conflicts(a.bytes, writers, [&](access_ref ref, const access_entry& e) {
    candidates_.push_back(e.task);
    if (writers && e.task > floor && map_.covering(ref, a.bytes)) {
      floor = e.task;
    }
    if (prunes && map_.covered_by(a.bytes, ref)) {
      covered_.push_back(ref);
    }
  });
  // What is older than a writer of all these bytes is ordered before that writer already.
  for (const task_id id : candidates_) {
    if (id >= floor) {
      predecessors_.add(id, why);
    }
  }
  for (const access_ref ref : covered_) {
    map_.prune(ref);
  }
  pruned_ += covered_.size();
}

void conflict_search::look_up(const access& a, bool prune) {
  if (const task_id failed = map_.failure_in(a.bytes); failed != 0) {
    failure_ = failure_ == 0 ? failed : std::min(failure_, failed);
  }
  const bool reads = a.mode != access_mode::write;
  task_id floor = 0;  // newest writer of all the bytes
  look_up_kind(a, true, reads ? hazard::raw : hazard::waw, prune, floor);
  if (a.mode != access_mode::read) {
    look_up_kind(a, false, hazard::war, prune, floor);
  }
}

}  // namespace weir::runtime
