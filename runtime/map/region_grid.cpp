// SPDX-License-Identifier: Apache-2.0
/// @file
/// The rare work of the grid: growing, and cleaning of lists that have become old.
///
/// Nothing here runs for each access: growing is amortized over the accesses that made it
/// necessary, and heads are cleaned once in 2^29 registrations.
#include "map/region_grid.hpp"

namespace weir::runtime {

// A head that is never replaced refers to a number that another access will have after
// 2^31 registrations. Such heads are replaced in time.
void region_grid::forget_old_heads() noexcept {
  for (std::uint32_t& head : heads_) {
    if (!alive(head >> 1)) {
      head = ring_.gone() * 2;
    }
  }
}

// Multiplies the number of cells by four and links all live accesses again. Lists keep
// the order from new to old.
void region_grid::grow() {
  const std::size_t size = heads_.size() * 4;
  heads_.assign(size, ring_.gone() * 2);
  capacity_ = size / 2;
  shift_ = 64U - static_cast<unsigned>(std::countr_zero(size));
  access_ref ref = ring_.oldest();
  for (std::uint32_t i = ring_.size(); i > 0; --i, ref = (ref + 1) & ref_mask) {
    if (!ring_.is_far(ref) || ring_.far(ref).pruned()) {
      continue;
    }
    grid_entry& e = ring_.far(ref);
    for (std::uint32_t k = 0; k < e.cells; ++k) {
      link_in_order(e, ref * 2 + k);
    }
  }
}

}  // namespace weir::runtime
