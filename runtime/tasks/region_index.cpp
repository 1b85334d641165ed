// SPDX-License-Identifier: Apache-2.0
/// @file
/// Inline arrays of few regions and the hierarchical grid of many.
#include "tasks/region_index.hpp"

namespace weir::runtime {

void region_grid::link(std::uint32_t link, std::size_t bucket) noexcept {
  node& n = nodes_[link >> 1];
  const std::uint32_t head = heads_[bucket];
  n.next[link & 1] = head;
  n.previous[link & 1] = none;
  if (head != none) {
    nodes_[head >> 1].previous[head & 1] = link;
  }
  heads_[bucket] = link;
}

void region_grid::unlink(std::uint32_t link, std::size_t bucket) noexcept {
  node& n = nodes_[link >> 1];
  const std::uint32_t next = n.next[link & 1];
  const std::uint32_t previous = n.previous[link & 1];
  if (previous == none) {
    heads_[bucket] = next;
  } else {
    nodes_[previous >> 1].next[previous & 1] = next;
  }
  if (next != none) {
    nodes_[next >> 1].previous[next & 1] = previous;
  }
}

void region_grid::grow() {
  const std::size_t size = heads_.empty() ? 1024 : heads_.size() * 4;
  heads_.assign(size, none);
  shift_ = 64U - static_cast<unsigned>(std::countr_zero(size));
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const node& n = nodes_[i];
    for (std::uint32_t k = 0; k < n.cells; ++k) {
      link(static_cast<std::uint32_t>(i * 2) + k,
           bucket(n.owner, n.level, n.first_cell() + k));
    }
  }
}

void region_grid::insert(directory& in, std::int64_t lo, std::int64_t hi,
                         std::uint32_t ref) {
  if (links_ + 2 > heads_.size()) {
    grow();
  }
  if (ref >= nodes_.size()) {
    nodes_.resize(static_cast<std::size_t>(ref) * 2 + 64);
  }
  node& n = nodes_[ref];
  const auto span = static_cast<std::uint64_t>(hi - lo);
  n.lo = lo;
  n.hi = hi;
  n.owner = in.owner;
  n.level = static_cast<std::uint8_t>(std::bit_width(span - 1));
  n.cells = static_cast<std::uint8_t>(((hi - 1) >> n.level) - n.first_cell() + 1);
  for (std::uint32_t k = 0; k < n.cells; ++k) {
    link(ref * 2 + k, bucket(n.owner, n.level, n.first_cell() + k));
  }
  links_ += n.cells;
  std::uint32_t& head = in.head[n.level];
  n.level_next = head;
  n.level_previous = none;
  if (head != none) {
    nodes_[head].level_previous = ref;
  }
  head = ref;
  in.mask |= std::uint64_t{1} << n.level;
  ++in.count[n.level];
}

void region_grid::remove(directory& from, std::uint32_t ref) {
  node& n = nodes_[ref];
  for (std::uint32_t k = 0; k < n.cells; ++k) {
    unlink(ref * 2 + k, bucket(n.owner, n.level, n.first_cell() + k));
  }
  links_ -= n.cells;
  n.cells = 0;
  if (n.level_previous == none) {
    from.head[n.level] = n.level_next;
  } else {
    nodes_[n.level_previous].level_next = n.level_next;
  }
  if (n.level_next != none) {
    nodes_[n.level_next].level_previous = n.level_previous;
  }
  if (--from.count[n.level] == 0) {
    from.mask &= ~(std::uint64_t{1} << n.level);
  }
}

void region_index::upgrade(region_grid& grid) {
  if (directory_ == nullptr) {
    directory_ = std::make_unique<region_grid::directory>();
    directory_->owner = owner_;
  }
  in_grid_ = true;
  for (std::uint32_t i = 0; i < count_; ++i) {
    grid.insert(*directory_, lo_[i], hi_[i], ref_[i]);
  }
}

void region_index::insert(region_grid& grid, std::int64_t lo, std::int64_t hi,
                          std::uint32_t ref) {
  if (!in_grid_ && count_ == inline_room) {
    upgrade(grid);
  }
  if (in_grid_) {
    grid.insert(*directory_, lo, hi, ref);
  } else {
    lo_[count_] = lo;
    hi_[count_] = hi;
    ref_[count_] = ref;
  }
  ++count_;
}

void region_index::remove(region_grid& grid, std::uint32_t ref) {
  --count_;
  if (in_grid_) {
    grid.remove(*directory_, ref);
    in_grid_ = count_ != 0;
    return;
  }
  std::uint32_t i = 0;
  while (ref_[i] != ref) {
    ++i;
  }
  lo_[i] = lo_[count_];
  hi_[i] = hi_[count_];
  ref_[i] = ref_[count_];
}

}  // namespace weir::runtime
