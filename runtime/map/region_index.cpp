// SPDX-License-Identifier: Apache-2.0
/// @file
/// The rare work of an index: moving to the grid when its few places are in use, and
/// operations on single accesses.
#include "map/region_index.hpp"

#include <algorithm>

namespace weir::runtime {

// Drops retired accesses first, which changes the positions of the others.
unsigned region_index::meeting_alive(const access_ring& ring, std::int64_t lo,
                                     std::int64_t hi) noexcept {
  filter([&](const access_entry& e) { return !ring.alive(e); });
  return meeting(lo, hi);
}

// Drops retired accesses. If there are none, all accesses of the index move to the grid,
// in the order from old to new, so that each level's list runs from new to old.
bool region_index::make_place(access_ring& ring, region_grid& grid) {
  filter([&](const access_entry& e) { return !ring.alive(e); });
  if (count_ < inline_capacity) {
    return true;
  }
  if (directory_ == nullptr) {
    directory_ = std::make_unique<region_grid::directory>(owner_);
  }
  // oldest first, because each access goes to the front of its level's list
  for (const access_entry& e : few_) {
    grid.insert_late(*directory_, e);
  }
  count_ = inline_capacity + 1;
  return false;
}

void region_index::insert_far(access_ring& ring, region_grid& grid,
                              const footprint& bytes, task_id task) noexcept {
  grid.insert(*directory_, ring, bytes, task, false, false);
}

void region_index::prune(access_ring& ring, region_grid& grid, access_ref ref) {
  if (ring.is_far(ref)) {
    if (grid.prune(*directory_, ring.far(ref))) {
      count_ = 0;
    }
    return;
  }
  filter([ref](const access_entry& e) { return e.ref() == ref; });
}

// Entries of the array may be of retired tasks, which do not count.
const access_entry* region_index::find(const access_ring& ring,
                                       access_ref ref) const noexcept {
  if (ring.is_far(ref)) {
    const grid_entry& e = ring.far(ref);
    return e.pruned() ? nullptr : &e.entry;
  }
  const access_entry* const end = few_.data() + (in_grid() ? 0 : count_);
  const access_entry* const found = std::find_if(
      few_.data(), end,
      [&](const access_entry& e) { return e.ref() == ref && ring.alive(e); });
  return found == end ? nullptr : found;
}

}  // namespace weir::runtime
