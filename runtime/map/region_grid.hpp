// SPDX-License-Identifier: Apache-2.0
/// @file
/// The grid: many live accesses, found by position. An access costs O(1) to add, nothing
/// to remove, and O(1) per hit to find.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "map/access_ring.hpp"

namespace weir::runtime {

/// Cells that all indexes share which have outgrown their own places. An access of span s
/// is linked into the one or two cells of size 2^ceil(log2 s) that it touches, and into
/// the list of its level. A query therefore looks, in each level, only into the cells
/// that it touches, or at all accesses of the level if these are fewer.
///
/// Every list runs from new to old. Since accesses retire in the order of their
/// registration, a list ends at its first retired access, and nothing needs to be
/// unlinked then. Pruned accesses are unlinked by the next walk that meets them. Cells
/// are buckets of a hash table, so a list may also contain accesses of other indexes and
/// levels.
/// @source{TensorMap design, 3.g and 6.2}
/// @threads{thread-compatible}
class region_grid {
 public:
  static constexpr unsigned levels = 64;

  /// The levels of one index.
  struct directory {
    explicit directory(std::uint32_t storage) noexcept : owner(storage) {
      for (std::uint64_t level = 0; level < levels; ++level) {
        place[level] = place_of(storage, level);
      }
    }
    std::uint32_t owner;     ///< index that it belongs to
    std::uint64_t mask = 0;  ///< levels with live accesses
    std::array<std::uint32_t, levels> count{};
    std::array<access_ref, levels> head{};
    std::array<std::uint64_t, levels> place;  ///< hash input of cell 0 of each level
  };

  explicit region_grid(access_ring& ring) : ring_(ring), heads_(first_heads, 0) {}

  /// Number of accesses that may be registered between two calls of `forget_old_heads`.
  static constexpr std::uint64_t heads_last = std::uint64_t{1} << 29;
  /// Empties lists whose newest access was retired long ago. Their heads would otherwise
  /// become equal to the number of another access one day.
  void forget_old_heads() noexcept;

  /// Returns the number of live accesses in the grid, of all indexes.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// Grows the table for `count` more accesses, unless the grid is empty, and returns for
  /// how many more it is large enough. With a table that is too small, look-ups only take
  /// longer.
  std::size_t reserve(std::size_t count) {
    while (size_ != 0 && size_ + count + capacity_ / 8 > capacity_) {
      grow();
    }
    return capacity_ - size_;
  }
  /// Adds the newest access to the ring and the grid. @pre the ring has capacity
  [[gnu::always_inline]] void insert(directory& in, access_ring& ring,
                                     const footprint& bytes, task_id task, bool strided,
                                     bool any_order) noexcept {
    const std::uint32_t owner = in.owner;
    grid_entry& e = ring.push_far(owner, !strided, any_order);
    const access_ref ref = e.entry.ref();
    e.entry.task = task;
    e.owner = owner;
    place(e, in, ref, bytes.lo, bytes.hi);
    const std::uint64_t cells = in.place[e.level];
    std::uint32_t& first = heads_[bucket(cells, e.first_cell)];
    e.next[0] = first;
    first = ref * 2;
    if (e.cells == 2) {
      std::uint32_t& second = heads_[bucket(cells, e.first_cell + 1)];
      e.next[1] = second;
      second = ref * 2 + 1;
    }
  }
  /// Adds an access although others were registered after it. @pre none of those that
  /// belong to the same index is in the grid
  void insert_late(directory& in, const access_entry& entry) {
    ring_.make_far(entry.ref());
    grid_entry& e = ring_.far(entry.ref());
    place(e, in, entry.ref(), entry.lo, entry.hi);
    e.entry.task = entry.task;
    e.entry.tag = entry.tag;
    e.owner = in.owner;
    for (std::uint32_t k = 0; k < e.cells; ++k) {
      link_in_order(e, entry.ref() * 2 + k);
    }
  }

  /// Prunes an access that a later write covers. Returns true if it was the last of its
  /// index.
  bool prune(directory& from, grid_entry& e) noexcept {
    e.cells = 0;
    return forget(from, e);
  }
  /// Removes an access from the counts, because it retires or is pruned. Returns true if
  /// it was the last of its index.
  bool forget(directory& from, const grid_entry& e) noexcept {
    --size_;
    if (--from.count[e.level] != 0) {
      return false;
    }
    from.mask &= ~(std::uint64_t{1} << e.level);
    return from.mask == 0;
  }

  /// Prefetches the newest accesses of the cells that contain one byte.
  void prefetch(const directory& in, std::int64_t lo) const noexcept {
    for (std::uint64_t mask = in.mask; mask != 0; mask &= mask - 1) {
      const auto level = static_cast<unsigned>(std::countr_zero(mask));
      __builtin_prefetch(&ring_.far(heads_[bucket(in.place[level], lo >> level)] >> 1));
    }
  }

  /// Calls `visit(access)` once for each access of the index whose [lo, hi) meets the
  /// query's, and prunes those for which it returns true.
  template <class Visit>
  void query(directory& in, std::int64_t lo, std::int64_t hi, Visit&& visit) {
    for (std::uint64_t mask = in.mask; mask != 0; mask &= mask - 1) {
      const auto level = static_cast<unsigned>(std::countr_zero(mask));
      const std::int64_t first = lo >> level;
      const std::int64_t last = (hi - 1) >> level;
      if (last - first < in.count[level]) {
        for (std::int64_t cell = first; cell <= last; ++cell) {
          visit_cell(in, {level, cell, first, lo, hi}, visit);
        }
      } else {
        visit_level(in, level, lo, hi, visit);
      }
    }
  }

 private:
  /// Number of buckets at first. There are twice as many buckets as accesses, at least.
  static constexpr std::size_t first_heads = 1024;

  /// One cell of a query.
  struct cell_query {
    unsigned level;
    std::int64_t cell;
    std::int64_t first;  ///< first cell of the query in this level
    std::int64_t lo;
    std::int64_t hi;
  };

  /// Returns the number that stands for cell 0 of a level of an owner. Numbers of
  /// different owners and levels are far apart.
  [[nodiscard]] static constexpr std::uint64_t place_of(std::uint32_t owner,
                                                        std::uint64_t level) noexcept {
    return (std::uint64_t{owner} << 6 | level) << 40;
  }
  /// Returns the bucket of a cell, by multiplicative hashing.
  [[nodiscard]] std::size_t bucket(std::uint64_t place,
                                   std::int64_t cell) const noexcept {
    const std::uint64_t key = place + static_cast<std::uint64_t>(cell);
    return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15U) >> shift_);
  }
  [[nodiscard]] bool alive(access_ref ref) const noexcept { return ring_.alive(ref); }

  /// Fills in an entry except task, tag, owner and the links of cells, and links it into
  /// its level.
  [[gnu::always_inline]] void place(grid_entry& e, directory& in, access_ref ref,
                                    std::int64_t lo, std::int64_t hi) noexcept {
    e.entry.lo = lo;
    e.entry.hi = hi;
    // Computes ceil(log2(span)), also for a span of 1, without a branch.
    const std::uint64_t odd = static_cast<std::uint64_t>(hi - lo - 1) * 2 + 1;
    const auto level = static_cast<unsigned>(std::bit_width(odd) - 1);
    const std::int64_t first = lo >> level;
    e.first_cell = first;
    e.level = static_cast<std::uint8_t>(level);
    e.cells = static_cast<std::uint8_t>(((hi - 1) >> level) - first + 1);
    if (in.count[level]++ == 0) [[unlikely]] {
      in.mask |= std::uint64_t{1} << level;
      e.level_next = ring_.gone();
    } else {
      e.level_next = in.head[level];
    }
    in.head[level] = ref;
    ++size_;
  }
  /// Links an entry into one of its cells, behind all newer accesses.
  void link_in_order(grid_entry& e, std::uint32_t link) noexcept {
    std::uint32_t* slot =
        &heads_[bucket(place_of(e.owner, e.level), e.first_cell + (link & 1))];
    while (alive(*slot >> 1) && age(*slot >> 1) < age(link >> 1)) {
      slot = &ring_.far(*slot >> 1).next[*slot & 1];
    }
    e.next[link & 1] = *slot;
    *slot = link;
  }
  /// Returns the number of accesses registered since this one.
  [[nodiscard]] std::uint32_t age(access_ref ref) const noexcept {
    return (ring_.oldest() + ring_.size() - ref) & ref_mask;
  }

  /// Visits the accesses of one cell and unlinks the pruned ones on the way.
  template <class Visit>
  void visit_cell(directory& in, const cell_query& q, Visit&& visit) {
    std::uint32_t* slot = &heads_[bucket(in.place[q.level], q.cell)];
    while (alive(*slot >> 1)) {
      const std::uint32_t link = *slot;
      grid_entry& e = ring_.far(link >> 1);
      std::uint32_t& next = e.next[link & 1];
      if (e.pruned()) {
        *slot = next;
        continue;
      }
      const std::int64_t own = e.first_cell;
      const bool here = e.owner == in.owner && e.level == q.level &&
                        own + static_cast<std::int64_t>(link & 1) == q.cell;
      // An access in two cells of the query is reported in the first of them.
      if (here && q.cell == std::max(own, q.first) && e.entry.lo < q.hi &&
          q.lo < e.entry.hi && visit(e.entry)) {
        prune(in, e);
        *slot = next;
      } else {
        slot = &next;
      }
    }
  }

  /// Visits all accesses of a level, where a query touches more cells than there are
  /// accesses.
  template <class Visit>
  void visit_level(directory& in, unsigned level, std::int64_t lo, std::int64_t hi,
                   Visit&& visit) {
    access_ref* slot = &in.head[level];
    while (alive(*slot)) {
      grid_entry& e = ring_.far(*slot);
      if (!e.pruned() && e.entry.lo < hi && lo < e.entry.hi && visit(e.entry)) {
        prune(in, e);
      }
      if (e.pruned()) {
        *slot = e.level_next;
      } else {
        slot = &e.level_next;
      }
    }
  }

  /// Makes more cells and links all accesses again.
  void grow();

  access_ring& ring_;
  std::vector<std::uint32_t> heads_;
  unsigned shift_ = 64U - 10U;
  std::size_t size_ = 0;
  std::size_t capacity_ =
      first_heads / 2;  ///< accesses for which the table is large enough
};

}  // namespace weir::runtime
