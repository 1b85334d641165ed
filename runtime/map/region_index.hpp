// SPDX-License-Identifier: Apache-2.0
/// @file
/// The live accesses of one kind to one storage: up to eight in an array, more of them in
/// the grid.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <memory>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "map/region_grid.hpp"

namespace weir::runtime {

/// Accesses of one kind (readers or writers) to one storage. `count_` says where they
/// are: up to `inline_capacity` lie in `few_`, and `inline_capacity + 1` means that all
/// are in the grid. An index returns to the array when its last access in the grid has
/// gone.
/// @threads{thread-compatible}
class region_index {
 public:
  /// Number of accesses in the array.
  static constexpr std::uint32_t inline_capacity = 8;
  static_assert(inline_capacity == 8, "they are compared four or eight at a time");

  explicit region_index(std::uint32_t owner) : owner_(owner) {}

  /// Adds the newest access to the ring and the index. @pre the ring has capacity
  void insert(access_ring& ring, region_grid& grid, const footprint& bytes, task_id task,
              bool any_order) {
    if (!in_grid() && (count_ < inline_capacity || make_place(ring, grid))) {
      const std::uint64_t tag = ring.push(owner_, bytes.dense(), any_order);
      few_[count_++] = {bytes.lo, bytes.hi, task, tag};
    } else {
      grid.insert(*directory_, ring, bytes, task, !bytes.dense(), any_order);
    }
  }
  /// Inserts a plain dense region into the array. Returns false and changes nothing if
  /// all places are in use.
  [[gnu::always_inline]] bool insert_near(access_ring& ring, const footprint& bytes,
                                          task_id task) noexcept {
    const std::uint32_t count = count_;
    if (count >= inline_capacity) {
      return false;
    }
    access_entry& e = few_[count];
    e.lo = bytes.lo;
    e.hi = bytes.hi;
    e.task = task;
    e.tag = ring.push(owner_, true, false);
    count_ = count + 1;
    return true;
  }
  /// Inserts a plain dense region into an index in the grid.
  void insert_far(access_ring& ring, region_grid& grid, const footprint& bytes,
                  task_id task) noexcept;
  /// Removes an access that a later write covers. @pre it is live and not pruned
  void prune(access_ring& ring, region_grid& grid, access_ref ref);
  /// Called before an access in the grid retires.
  void retire(region_grid& grid, const grid_entry& e) noexcept {
    if (grid.forget(*directory_, e)) {
      count_ = 0;  // all places of the array are free again
    }
  }
  /// Returns the live access of a number, or null if it has been pruned.
  [[nodiscard]] const access_entry* find(const access_ring& ring,
                                         access_ref ref) const noexcept;

  /// Prefetches the memory that a look-up will need.
  void prefetch(const region_grid& grid, std::int64_t lo) const noexcept {
    if (in_grid()) {
      grid.prefetch(*directory_, lo);
    }
  }
  [[nodiscard]] bool in_grid() const noexcept { return count_ > inline_capacity; }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  /// Returns the only access, which may be retired, if it is plain, and null otherwise.
  [[nodiscard]] access_entry* only_plain() noexcept {
    return count_ == 1 && few_[0].plain() ? &few_[0] : nullptr;
  }
  /// Removes the only access. @pre only_plain()
  void prune_only() noexcept { count_ = 0; }
  /// Calls `gone(access)` for all accesses from old to new, and removes those for which
  /// it returns true. @pre !in_grid()
  template <class Gone>
  void filter(Gone&& gone) {
    access_entry* const end = few_.data() + count_;
    access_entry* next = few_.data();
    for (access_entry* e = next; e != end; ++e) {
      if (!gone(*e)) {
        if (next != e) {
          *next = *e;
        }
        ++next;
      }
    }
    count_ = static_cast<std::uint32_t>(next - few_.data());
  }

  /// Calls `visit(access)` once for each live access whose [lo, hi) meets the query's,
  /// and prunes those for which it returns true.
  template <class Visit>
  void query(access_ring& ring, region_grid& grid, std::int64_t lo, std::int64_t hi,
             Visit&& visit) {
    if (in_grid()) {
      grid.query(*directory_, lo, hi, visit);
      if (directory_->mask == 0) {
        count_ = 0;
      }
    } else {
      scan(ring, lo, hi, visit);
    }
  }
  /// Visits the accesses of an index that is not in the grid, from old to new. There are
  /// at most `inline_capacity`.
  template <class Visit>
  void scan(const access_ring& ring, std::int64_t lo, std::int64_t hi, Visit&& visit) {
    unsigned hits = meeting(lo, hi);
    if (hits == 0) {
      return;
    }
    access_entry* e = first_of(hits);
    if (!ring.alive(*e)) [[unlikely]] {  // retired accesses come first
      hits = meeting_alive(ring, lo, hi);
      if (hits == 0) {
        return;
      }
      e = first_of(hits);
    }
    unsigned gone = 0;
    for (;; e = first_of(hits)) {
      if (visit(*e)) {
        gone |= hits & (0U - hits);
      }
      hits &= hits - 1;
      if (hits == 0) {
        break;
      }
    }
    if (gone != 0) {
      drop(gone);
    }
  }

 private:
  /// Returns the first access that `meeting` has found. @pre there is one
  [[nodiscard]] access_entry* first_of(unsigned hits) noexcept {
    return few_.data() + static_cast<unsigned>(std::countr_zero(hits)) / 2;
  }
  /// Drops retired accesses, then does the same as `meeting`.
  [[nodiscard]] unsigned meeting_alive(const access_ring& ring, std::int64_t lo,
                                       std::int64_t hi) noexcept;
  /// Returns a mask with two bits for each place, of which the lower one is set if the
  /// access meets [lo, hi).
  [[nodiscard]] unsigned meeting(std::int64_t lo, std::int64_t hi) const noexcept {
#if defined(__SSE2__)
    // An access meets the query if lo - query.hi < 0 and hi - (query.lo + 1) >= 0. Both
    // differences are computed at once, and their signs are collected: the first sign
    // must be set and the second must not.
    const __m128i query = _mm_set_epi64x(lo + 1, hi);
    const auto signs = [&](const access_entry& e) {  // the signs are in the upper 32 bits
      const auto* bounds = reinterpret_cast<const __m128i*>(&e.lo);
      return _mm_castsi128_ps(_mm_sub_epi64(_mm_load_si128(bounds), query));
    };
    // differences of four entries, as 16-bit words
    const auto four = [&](const access_entry* e) {
      const __m128 a = _mm_shuffle_ps(signs(e[0]), signs(e[1]), _MM_SHUFFLE(3, 1, 3, 1));
      const __m128 b = _mm_shuffle_ps(signs(e[2]), signs(e[3]), _MM_SHUFFLE(3, 1, 3, 1));
      return _mm_packs_epi32(_mm_castps_si128(a), _mm_castps_si128(b));
    };
    const __m128i first = four(few_.data());
    const __m128i rest =
        count_ <= inline_capacity / 2 ? first : four(few_.data() + inline_capacity / 2);
    const auto both =
        static_cast<unsigned>(_mm_movemask_epi8(_mm_packs_epi16(first, rest)));
    return both & ~(both >> 1) & bits_in_use[count_];
#else
    unsigned out = 0;
    for (std::uint32_t i = 0; i < count_; ++i) {
      out |= static_cast<unsigned>(few_[i].lo < hi && lo < few_[i].hi) << 2 * i;
    }
    return out;
#endif
  }
  /// Removes the accesses whose lower bit is set in the mask.
  void drop(unsigned gone) noexcept {
    const std::uint32_t count = count_;
    count_ = 0;
    if (gone == bits_in_use[count]) {
      return;
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      if ((gone >> 2 * i & 1) == 0) {
        few_[count_++] = few_[i];
      }
    }
  }
  /// Drops retired accesses. If there are none, moves all accesses to the grid and
  /// returns false. @pre count_ == inline_capacity
  [[gnu::noinline]] bool make_place(access_ring& ring, region_grid& grid);

  /// Mask of all places in use, by their number.
  static constexpr std::array<std::uint16_t, inline_capacity + 1> bits_in_use = {
      0, 0x1, 0x5, 0x15, 0x55, 0x155, 0x555, 0x1555, 0x5555};

  // Directory, counts and the first access share a cache line.
  alignas(64) std::unique_ptr<region_grid::directory> directory_;
  std::uint32_t owner_;
  /// accesses in `few_`; more than `inline_capacity`: all are in the grid
  std::uint32_t count_ = 0;
  std::array<access_entry, inline_capacity> few_;  ///< oldest first
};

}  // namespace weir::runtime
