// SPDX-License-Identifier: Apache-2.0
/// @file
/// Inline arrays of few regions and the hierarchical grid of many.
#include "tasks/region_index.hpp"

namespace weir::runtime {

void region_grid::link(std::uint32_t link, std::size_t bucket) noexcept {
  access_entry& e = pool_[link >> 1];
  const std::uint32_t head = heads_[bucket];
  e.next[link & 1] = head;
  e.previous[link & 1] = no_entry;
  if (head != no_entry) {
    pool_[head >> 1].previous[head & 1] = link;
  }
  heads_[bucket] = link;
}

void region_grid::unlink(std::uint32_t link, std::size_t bucket) noexcept {
  const access_entry& e = pool_[link >> 1];
  const std::uint32_t next = e.next[link & 1];
  const std::uint32_t previous = e.previous[link & 1];
  if (previous == no_entry) {
    heads_[bucket] = next;
  } else {
    pool_[previous >> 1].next[previous & 1] = next;
  }
  if (next != no_entry) {
    pool_[next >> 1].previous[next & 1] = previous;
  }
}

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

void region_grid::insert(directory& in, std::uint32_t ref) {
  if (links_ + 2 > heads_.size()) {
    grow();
  }
  access_entry& e = pool_[ref];
  const auto span = static_cast<std::uint64_t>(e.hi - e.lo);
  e.level = static_cast<std::uint8_t>(std::bit_width(span - 1));
  e.cells = static_cast<std::uint8_t>(((e.hi - 1) >> e.level) - e.first_cell() + 1);
  for (std::uint32_t k = 0; k < e.cells; ++k) {
    link(ref * 2 + k, bucket(e.owner, e.level, e.first_cell() + k));
  }
  links_ += e.cells;
  std::uint32_t& head = in.head[e.level];
  e.level_next = head;
  e.level_previous = no_entry;
  if (head != no_entry) {
    pool_[head].level_previous = ref;
  }
  head = ref;
  in.mask |= std::uint64_t{1} << e.level;
  ++in.count[e.level];
}

void region_grid::remove(directory& from, std::uint32_t ref) {
  access_entry& e = pool_[ref];
  for (std::uint32_t k = 0; k < e.cells; ++k) {
    unlink(ref * 2 + k, bucket(e.owner, e.level, e.first_cell() + k));
  }
  links_ -= e.cells;
  e.cells = 0;
  if (e.level_previous == no_entry) {
    from.head[e.level] = e.level_next;
  } else {
    pool_[e.level_previous].level_next = e.level_next;
  }
  if (e.level_next != no_entry) {
    pool_[e.level_next].level_previous = e.level_previous;
  }
  if (--from.count[e.level] == 0) {
    from.mask &= ~(std::uint64_t{1} << e.level);
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

void region_index::insert(access_pool& pool, region_grid& grid, std::uint32_t ref) {
  if (count_ == inline_room && !in_grid()) {
    upgrade(pool, grid);
  }
  access_entry& e = pool[ref];
  e.owner = owner_;
  if (in_grid()) {
    grid.insert(directory_->levels, ref);
  } else {
    inline_[count_] = {e.lo, e.hi, ref};
  }
  ++count_;
}

void region_index::remove(region_grid& grid, std::uint32_t ref) {
  --count_;
  if (in_grid()) {
    grid.remove(directory_->levels, ref);
    directory_->in_use = count_ != 0;
    return;
  }
  std::uint32_t i = 0;
  while (inline_[i].ref != ref) {
    ++i;
  }
  inline_[i] = inline_[count_];
}

}  // namespace weir::runtime
