// SPDX-License-Identifier: Apache-2.0
/// @file
/// The few places of an index when they run out.
#include "map/region_index.hpp"

#include <algorithm>

namespace weir::runtime {

void region_index::make_place(access_ring& ring, region_grid& grid) {
  for (std::uint32_t i = count_; i-- > 0;) {
    if (!ring.alive(refs_[i])) {
      drop(i);
    }
  }
  if (count_ < room) {
    return;
  }
  if (directory_ == nullptr) {
    directory_ = std::make_unique<region_grid::directory>();
  }
  // A level's list runs from new to old.
  std::array<access_ref, room> in_order = refs_;
  std::sort(in_order.begin(), in_order.end(), [&](access_ref a, access_ref b) {
    return ((a - ring.oldest()) & ref_mask) < ((b - ring.oldest()) & ref_mask);
  });
  for (const access_ref ref : in_order) {
    grid.insert_late(*directory_, ref);
  }
  while (count_ > 0) {
    drop(count_ - 1);
  }
}

void region_index::widen(access_ring& ring, std::int64_t hi) {
  while (((hi - 1) >> shift_) > most_place) {
    ++shift_;
  }
  for (std::uint32_t i = count_; i-- > 0;) {
    if (ring.alive(refs_[i])) {
      const access_entry& e = ring.at(refs_[i]);
      put(i, e.lo, e.hi, refs_[i]);
    } else {
      drop(i);
    }
  }
}

}  // namespace weir::runtime
