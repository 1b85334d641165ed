// SPDX-License-Identifier: Apache-2.0
/// @file
/// Groups of tasks that commute in any order: membership, kept by the submitter.
#include "tasks/exclusion.hpp"

namespace weir::runtime {

/// Adds a task to the group of its companion, or to a new group. Groups are used again,
/// so there are never more of them than were alive at once.
void exclusion_groups::join(task& t, const task* companion) {
  exclusion* group = nullptr;
  if (companion != nullptr) {
    group = group_of(*companion);
  } else if (!free_.empty()) {
    group = free_.back();
    free_.pop_back();
  } else {
    groups_.push_back(std::make_unique<exclusion>());
    free_.reserve(groups_.size());  // so that leave() needs no memory
    group = groups_.back().get();
  }
  ++group->members;
  t.exclusive = true;
  group_of(t) = group;
}

/// Takes a task out of its group when it is retired.
void exclusion_groups::leave(task& t) noexcept {
  exclusion* const group = group_of(t);
  t.exclusive = false;
  if (--group->members == 0) {
    free_.push_back(group);
  }
}

}  // namespace weir::runtime
