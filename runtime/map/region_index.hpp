// SPDX-License-Identifier: Apache-2.0
/// @file
/// Which live accesses of one storage may meet a byte range: O(1) to insert, remove and,
/// per hit, to look up.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "weir/runtime/engine.hpp"

namespace weir::runtime {

/// End of a list of accesses.
inline constexpr std::uint32_t no_entry = 0xFFFFFFFFU;

/// One access of one task: a cache line with all that a look-up of dense regions needs,
/// and its links.
struct alignas(64) access_entry {
  std::int64_t lo = 0;
  std::int64_t hi = 0;
  /// The task, or the oldest failure behind it once it is gone.
  task_id task = 0;
  /// Next access of the task; once that is gone, the place in the list of failed writes.
  std::uint32_t next_of_task = no_entry;
  std::uint32_t owner = no_entry;  ///< index that it belongs to
  std::uint32_t level_next = no_entry;
  std::uint32_t level_previous = no_entry;
  /// Links in the one or two cells that it touches, named by entry * 2 + cell.
  std::array<std::uint32_t, 2> next{no_entry, no_entry};
  std::array<std::uint32_t, 2> previous{no_entry, no_entry};
  std::uint8_t level = 0;
  std::uint8_t cells = 0;
  bool dense = true;
  bool linked : 1 = false;
  bool left_behind : 1 = false;  ///< the task is gone, and failed or was poisoned

  [[nodiscard]] std::int64_t first_cell() const noexcept { return lo >> level; }
  [[nodiscard]] bool failed() const noexcept { return left_behind; }
  [[nodiscard]] task_id root() const noexcept { return task; }
};
static_assert(sizeof(access_entry) == 64);

using access_pool = std::vector<access_entry>;

/// Cells shared by all indexes that have outgrown their inline array: an entry of span s
/// is linked into the one or two cells of size 2^ceil(log2 s) that it touches, and into
/// the list of its level.
/// @source{docs/tensormap.md, section 3.g}
/// @threads{thread-compatible}
class region_grid {
 public:
  static constexpr unsigned levels = 64;

  struct directory {
    std::uint64_t mask = 0;  ///< populated levels
    std::array<std::uint32_t, levels> count{};
    std::array<std::uint32_t, levels> head;
    directory() { head.fill(no_entry); }
  };

  explicit region_grid(access_pool& pool) : pool_(pool) {}

  void insert(directory& in, std::uint32_t ref);
  void remove(directory& from, std::uint32_t ref);

  /// Calls `visit(ref)` once for each entry of the index `owner` whose [lo, hi) meets the
  /// query's.
  template <class Visit>
  void query(const directory& in, std::uint32_t owner, std::int64_t lo, std::int64_t hi,
             Visit&& visit) const {
    for (std::uint64_t mask = in.mask; mask != 0; mask &= mask - 1) {
      const auto level = static_cast<unsigned>(std::countr_zero(mask));
      const std::int64_t first = lo >> level;
      const std::int64_t last = (hi - 1) >> level;
      if (last - first < in.count[level]) {
        for (std::int64_t cell = first; cell <= last; ++cell) {
          visit_cell(owner, level, cell, first, lo, hi, visit);
        }
        continue;
      }
      for (std::uint32_t n = in.head[level]; n != no_entry; n = pool_[n].level_next) {
        if (pool_[n].lo < hi && lo < pool_[n].hi) {
          visit(n);
        }
      }
    }
  }

 private:
  [[nodiscard]] std::size_t bucket(std::uint32_t owner, unsigned level,
                                   std::int64_t cell) const noexcept {
    const std::uint64_t place =
        static_cast<std::uint64_t>(cell) + ((std::uint64_t{owner} << 6 | level) << 40);
    return static_cast<std::size_t>((place * 0x9E3779B97F4A7C15U) >> shift_);
  }

  template <class Visit>
  void visit_cell(std::uint32_t owner, unsigned level, std::int64_t cell,
                  std::int64_t first, std::int64_t lo, std::int64_t hi,
                  Visit&& visit) const {
    for (std::uint32_t link = heads_[bucket(owner, level, cell)]; link != no_entry;) {
      const access_entry& e = pool_[link >> 1];
      const std::int64_t own = e.lo >> level;
      const bool here = e.owner == owner && e.level == level && own + (link & 1) == cell;
      // An entry in two cells of the query is reported in the first of them.
      if (here && cell == (own > first ? own : first) && e.lo < hi && lo < e.hi) {
        visit(link >> 1);
      }
      link = e.next[link & 1];
    }
  }

  void link(std::uint32_t link, std::size_t bucket) noexcept;
  void unlink(std::uint32_t link, std::size_t bucket) noexcept;
  void grow();

  access_pool& pool_;
  std::vector<std::uint32_t> heads_;
  unsigned shift_ = 63;
  std::size_t links_ = 0;
};

/// Accesses of one kind (readers or writers) to one storage. A few are kept in place,
/// more in the grid.
/// @threads{thread-compatible}
class alignas(64) region_index {
 public:
  static constexpr std::uint32_t inline_room = 10;

  explicit region_index(std::uint32_t owner) : owner_(owner) {}

  /// The entry's lo and hi are set.
  void insert(access_pool& pool, region_grid& grid, std::uint32_t ref);
  void remove(region_grid& grid, std::uint32_t ref);

  template <class Visit>
  void query(const region_grid& grid, std::int64_t lo, std::int64_t hi,
             Visit&& visit) const {
    if (count_ > inline_room || in_grid()) {
      grid.query(directory_->levels, owner_, lo, hi, visit);
      return;
    }
    for (std::uint32_t i = 0; i < count_; ++i) {
      if (inline_[i].lo < hi && lo < inline_[i].hi) {
        visit(inline_[i].ref);
      }
    }
  }

 private:
  struct place {
    std::int64_t lo;
    std::int64_t hi;
    std::uint32_t ref;
  };
  struct outgrown {
    bool in_use = false;  ///< until the index is empty again
    region_grid::directory levels;
  };

  [[nodiscard]] bool in_grid() const noexcept {
    return directory_ != nullptr && directory_->in_use;
  }
  void upgrade(access_pool& pool, region_grid& grid);

  std::uint32_t owner_;
  std::uint32_t count_ = 0;
  std::unique_ptr<outgrown> directory_;
  std::array<place, inline_room> inline_;
};

inline void region_grid::link(std::uint32_t link, std::size_t bucket) noexcept {
  access_entry& e = pool_[link >> 1];
  const std::uint32_t head = heads_[bucket];
  e.next[link & 1] = head;
  e.previous[link & 1] = no_entry;
  if (head != no_entry) {
    pool_[head >> 1].previous[head & 1] = link;
  }
  heads_[bucket] = link;
}

inline void region_grid::unlink(std::uint32_t link, std::size_t bucket) noexcept {
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

inline void region_grid::insert(directory& in, std::uint32_t ref) {
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

inline void region_grid::remove(directory& from, std::uint32_t ref) {
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

inline void region_index::insert(access_pool& pool, region_grid& grid,
                                 std::uint32_t ref) {
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

inline void region_index::remove(region_grid& grid, std::uint32_t ref) {
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
