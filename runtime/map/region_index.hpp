// SPDX-License-Identifier: Apache-2.0
/// @file
/// Which live accesses of one storage may meet a byte range: a few in two cache lines,
/// more in the grid.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <memory>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "map/region_grid.hpp"

namespace weir::runtime {

/// Accesses of one kind (readers or writers) to one storage.
/// @threads{thread-compatible}
class region_index {
 public:
  static constexpr std::uint32_t room = 8;

  explicit region_index(std::uint32_t owner) : owner_(owner) {
    first_.fill(nowhere_first);
    last_.fill(nowhere_last);
  }

  /// The entry is complete but for `owner` and its links, and the newest of the ring.
  void insert(access_ring& ring, region_grid& grid, access_ref ref, std::int64_t lo,
              std::int64_t hi) {
    access_entry& e = ring.at(ref);
    e.owner = owner_;
    e.cells = 0;
    if (count_ == room) {
      make_place(ring, grid);
    }
    if (in_grid()) {
      grid.insert(*directory_, ref, lo, hi);
      return;
    }
    if (((hi - 1) >> shift_) > most_place) {
      widen(ring, hi);
    }
    put(count_++, lo, hi, ref);
  }
  /// Takes out one that a later write covers. @pre it is alive and not pruned
  void prune(access_ring& ring, region_grid& grid, access_ref ref) {
    access_entry& e = ring.at(ref);
    e.pruned = true;
    if (e.cells != 0) {
      grid.forget(*directory_, e);
      return;
    }
    for (std::uint32_t i = 0; i < count_; ++i) {
      if (refs_[i] == ref) {
        drop(i);
        return;
      }
    }
  }
  /// One of the grid is about to go.
  void retire(region_grid& grid, const access_entry& e) noexcept {
    grid.forget(*directory_, e);
  }

  /// Asks for the memory that a look-up will need first.
  void prefetch(const region_grid& grid, std::int64_t lo) const noexcept {
    if (in_grid()) {
      grid.prefetch(*directory_, owner_, lo);
    }
  }

  /// Calls `visit(ref, entry)` once for each live access whose [lo, hi) meets the
  /// query's, and prunes those for which it returns true.
  template <class Visit>
  void query(access_ring& ring, region_grid& grid, std::int64_t lo, std::int64_t hi,
             Visit&& visit) {
    if (in_grid()) {
      grid.query(*directory_, owner_, lo, hi, visit);
    } else {
      scan(ring, lo, hi, visit);
    }
  }
  [[nodiscard]] bool in_grid() const noexcept {
    return directory_ != nullptr && directory_->total != 0;
  }
  [[nodiscard]] bool alone() const noexcept { return count_ <= 1 && !in_grid(); }
  /// The only access, if it is alive; null if there is none. @pre alone()
  [[nodiscard]] access_entry* only(access_ring& ring) noexcept {
    if (count_ == 0 || !ring.alive(refs_[0])) {
      return nullptr;
    }
    access_entry& e = ring.at(refs_[0]);
    return e.owner == owner_ ? &e : nullptr;
  }
  /// Prunes the only access. @pre only() found it
  void prune_only(access_ring& ring) noexcept {
    ring.at(refs_[0]).pruned = true;
    drop(0);
  }
  /// The same for the few accesses of an index that is not in the grid, at most `room`.
  template <class Visit>
  void scan(access_ring& ring, std::int64_t lo, std::int64_t hi, Visit&& visit) {
    // A few are compared one by one, by their entries alone.
    unsigned hits = count_ > few ? matches(place(lo), place(hi - 1)) : (1U << count_) - 1;
    const access_ring::live_range live = ring.live();
    unsigned gone = 0;
    for (; hits != 0; hits &= hits - 1) {
      const auto i = static_cast<unsigned>(std::countr_zero(hits));
      const access_ref ref = refs_[i];
      if (!live.has(ref)) {
        gone |= 1U << i;
        continue;
      }
      access_entry& e = ring.at(ref);
      if (e.lo < hi && lo < e.hi && e.owner == owner_ && visit(ref, e)) {
        e.pruned = true;
        gone |= 1U << i;
      }
    }
    if (gone != 0) {
      drop_all(gone);
    }
  }

 private:
  static constexpr std::int32_t nowhere_first = std::numeric_limits<std::int32_t>::max();
  static constexpr std::int32_t nowhere_last = std::numeric_limits<std::int32_t>::min();
  static constexpr std::int64_t most_place = nowhere_first - 1;
  static constexpr std::uint32_t few = 2;

  /// Bytes in units of 2^shift, so that they fit into 31 bits.
  [[nodiscard]] std::int32_t place(std::int64_t byte) const noexcept {
    return static_cast<std::int32_t>(std::min(byte >> shift_, most_place));
  }
  /// @pre hi - 1 has a place
  void put(std::uint32_t i, std::int64_t lo, std::int64_t hi, access_ref ref) noexcept {
    first_[i] = static_cast<std::int32_t>(lo >> shift_);
    last_[i] = static_cast<std::int32_t>((hi - 1) >> shift_);
    refs_[i] = ref;
  }
  void drop(std::uint32_t i) noexcept {
    --count_;
    first_[i] = first_[count_];
    last_[i] = last_[count_];
    refs_[i] = refs_[count_];
    first_[count_] = nowhere_first;
    last_[count_] = nowhere_last;
  }
  void drop_all(unsigned gone) noexcept {
    if (gone == (1U << count_) - 1) {
      first_.fill(nowhere_first);
      last_.fill(nowhere_last);
      count_ = 0;
      return;
    }
    while (gone != 0) {  // the last one first, which fills no place that is to go
      const auto i = static_cast<unsigned>(std::bit_width(gone)) - 1;
      drop(i);
      gone ^= 1U << i;
    }
  }
  /// One bit per place whose bytes may meet [first, last].
  [[nodiscard]] unsigned matches(std::int32_t first, std::int32_t last) const noexcept {
#if defined(__SSE2__)
    const __m128i from = _mm_set1_epi32(first);
    const __m128i to = _mm_set1_epi32(last);
    const auto misses = [&](const std::int32_t* firsts, const std::int32_t* lasts) {
      const __m128i a = _mm_load_si128(reinterpret_cast<const __m128i*>(firsts));
      const __m128i b = _mm_load_si128(reinterpret_cast<const __m128i*>(lasts));
      const __m128i miss = _mm_or_si128(_mm_cmpgt_epi32(a, to), _mm_cmpgt_epi32(from, b));
      return static_cast<unsigned>(_mm_movemask_ps(_mm_castsi128_ps(miss)));
    };
    const unsigned low = misses(first_.data(), last_.data());
    const unsigned high = misses(first_.data() + 4, last_.data() + 4);
    return (low | high << 4) ^ 0xFFU;
#else
    unsigned out = 0;
    for (unsigned i = 0; i < room; ++i) {
      out |= static_cast<unsigned>(first_[i] <= last && first <= last_[i]) << i;
    }
    return out;
#endif
  }
  /// Forgets what is gone; if that is nothing, moves all into the grid.
  void make_place(access_ring& ring, region_grid& grid);
  /// Takes a larger unit.
  void widen(access_ring& ring, std::int64_t hi);

  alignas(64) std::array<std::int32_t, room> first_;
  std::array<std::int32_t, room> last_;
  std::array<access_ref, room> refs_{};
  std::unique_ptr<region_grid::directory> directory_;
  std::uint32_t owner_;
  std::uint32_t count_ = 0;
  unsigned shift_ = 0;
};

}  // namespace weir::runtime
