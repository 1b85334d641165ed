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

namespace weir::runtime {

/// Nodes and cells shared by all grids: an entry of span s is linked into the one or two
/// cells of size 2^ceil(log2 s) that it touches, and into the list of its level.
/// @source{docs/tensormap.md, section 3.g}
/// @threads{thread-compatible}
class region_grid {
 public:
  static constexpr std::uint32_t none = 0xFFFFFFFFU;
  static constexpr unsigned levels = 64;

  /// Per index that has outgrown its inline array.
  struct directory {
    std::uint32_t owner = 0;
    std::uint64_t mask = 0;  ///< populated levels
    std::array<std::uint32_t, levels> count{};
    std::array<std::uint32_t, levels> head;
    directory() { head.fill(none); }
  };

  void insert(directory& in, std::int64_t lo, std::int64_t hi, std::uint32_t ref);
  void remove(directory& from, std::uint32_t ref);

  /// Calls `visit(ref)` once for each entry of `in` whose [lo, hi) meets the query's.
  template <class Visit>
  void query(const directory& in, std::int64_t lo, std::int64_t hi, Visit&& visit) const {
    for (std::uint64_t mask = in.mask; mask != 0; mask &= mask - 1) {
      const auto level = static_cast<unsigned>(std::countr_zero(mask));
      const std::int64_t first = lo >> level;
      const std::int64_t last = (hi - 1) >> level;
      if (last - first >= in.count[level]) {
        for (std::uint32_t n = in.head[level]; n != none; n = nodes_[n].level_next) {
          if (nodes_[n].lo < hi && lo < nodes_[n].hi) {
            visit(n);
          }
        }
        continue;
      }
      for (std::int64_t cell = first; cell <= last; ++cell) {
        visit_cell(in.owner, level, cell, first, lo, hi, visit);
      }
    }
  }

 private:
  struct node {
    std::int64_t lo = 0;
    std::int64_t hi = 0;
    std::uint32_t owner = none;
    std::uint8_t level = 0;
    std::uint8_t cells = 0;
    std::uint32_t level_next = none;
    std::uint32_t level_previous = none;
    std::array<std::uint32_t, 2> next{none,
                                      none};  ///< links: entry * 2 + cell of the entry
    std::array<std::uint32_t, 2> previous{none, none};
    [[nodiscard]] std::int64_t first_cell() const noexcept { return lo >> level; }
  };

  [[nodiscard]] std::size_t bucket(std::uint32_t owner, unsigned level,
                                   std::int64_t cell) const noexcept {
    const std::uint64_t key = static_cast<std::uint64_t>(cell) * 0x9E3779B97F4A7C15U +
                              (std::uint64_t{owner} * 64 + level) * 0xC2B2AE3D27D4EB4FU;
    return static_cast<std::size_t>((key ^ (key >> 29)) * 0xBF58476D1CE4E5B9U >> shift_);
  }

  template <class Visit>
  void visit_cell(std::uint32_t owner, unsigned level, std::int64_t cell,
                  std::int64_t first, std::int64_t lo, std::int64_t hi,
                  Visit&& visit) const {
    for (std::uint32_t link = heads_[bucket(owner, level, cell)]; link != none;) {
      const node& n = nodes_[link >> 1];
      const std::int64_t own = n.first_cell();
      const bool here = n.owner == owner && n.level == level && own + (link & 1) == cell;
      // An entry in two cells of the query is reported in the first of them.
      if (here && cell == (own > first ? own : first) && n.lo < hi && lo < n.hi) {
        visit(link >> 1);
      }
      link = n.next[link & 1];
    }
  }

  void link(std::uint32_t link, std::size_t bucket) noexcept;
  void unlink(std::uint32_t link, std::size_t bucket) noexcept;
  void grow();

  std::vector<node> nodes_;  ///< by entry
  std::vector<std::uint32_t> heads_;
  unsigned shift_ = 64;
  std::size_t links_ = 0;
};

/// Accesses of one kind (readers or writers) to one storage. A few are kept in place,
/// more in the grid.
/// @threads{thread-compatible}
class region_index {
 public:
  static constexpr std::uint32_t inline_room = 8;

  explicit region_index(std::uint32_t owner) : owner_(owner) {}

  void insert(region_grid& grid, std::int64_t lo, std::int64_t hi, std::uint32_t ref);
  void remove(region_grid& grid, std::uint32_t ref);

  template <class Visit>
  void query(const region_grid& grid, std::int64_t lo, std::int64_t hi,
             Visit&& visit) const {
    if (in_grid_) {
      grid.query(*directory_, lo, hi, visit);
      return;
    }
    for (std::uint32_t i = 0; i < count_; ++i) {
      if (lo_[i] < hi && lo < hi_[i]) {
        visit(ref_[i]);
      }
    }
  }
  [[nodiscard]] std::uint32_t size() const noexcept { return count_; }

 private:
  void upgrade(region_grid& grid);

  std::uint32_t owner_;
  std::uint32_t count_ = 0;
  std::array<std::int64_t, inline_room> lo_;
  std::array<std::int64_t, inline_room> hi_;
  std::array<std::uint32_t, inline_room> ref_;
  bool in_grid_ = false;  ///< until it is empty again
  std::unique_ptr<region_grid::directory> directory_;
};

}  // namespace weir::runtime
