// SPDX-License-Identifier: Apache-2.0
/// @file
/// Inline arrays of few regions and the hierarchical grid of many.
#include "map/region_index.hpp"

namespace weir::runtime {

void region_grid::grow() {
  const std::size_t size = heads_.empty() ? 1024 : heads_.size() * 4;
  heads_.assign(size, no_entry);
  shift_ = 64U - static_cast<unsigned>(std::countr_zero(size));
  for (std::size_t i = 0; i < pool_.size(); ++i) {
    const access_entry& e = pool_[i];
    for (std::uint32_t k = 0; k < e.cells; ++k) {
      link(static_cast<std::uint32_t>(i * 2) + k,
           bucket(e.owner, e.level, e.first_cell() + k));
    }
  }
}

void region_index::upgrade(access_pool& pool, region_grid& grid) {
  if (directory_ == nullptr) {
    directory_ = std::make_unique<outgrown>();
  }
  directory_->in_use = true;
  for (std::uint32_t i = 0; i < count_; ++i) {
    pool[inline_[i].ref].owner = owner_;
    grid.insert(directory_->levels, inline_[i].ref);
  }
}

}  // namespace weir::runtime
