// SPDX-License-Identifier: Apache-2.0
/// @file
/// The accesses of tasks that have not been retired, in the order of their registration.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>

#include "weir/runtime/engine.hpp"

namespace weir::runtime {

/// Number of an access in the order of registration, modulo 2^31. Who keeps one asks the
/// ring whether it is still alive.
using access_ref = std::uint32_t;
inline constexpr access_ref ref_mask = 0x7FFFFFFFU;

/// One access of one task: a cache line with all that a look-up of dense regions needs,
/// and its links.
struct alignas(64) access_entry {
  std::int64_t lo = 0;
  std::int64_t hi = 0;
  task_id task = 0;
  std::uint32_t owner = 0;  ///< index that it belongs to
  /// What is older in the one or two cells that it touches: access * 2 + cell.
  std::array<std::uint32_t, 2> next{};
  access_ref level_next = 0;  ///< what is older in its level
  std::uint8_t level = 0;
  std::uint8_t cells = 0;  ///< 0: not in the grid
  bool dense = true;
  bool pruned = false;     ///< a later write covers it
  bool any_order = false;  ///< of a task that commutes in any order

  [[nodiscard]] std::int64_t first_cell() const noexcept { return lo >> level; }
  [[nodiscard]] bool writer() const noexcept { return (owner & 1) != 0; }
};
static_assert(sizeof(access_entry) == 64);

/// A ring that is as large as it had to be so far, up to a limit: few accesses stay in
/// few cache lines.
/// @threads{thread-compatible}
class access_ring {
 public:
  explicit access_ring(std::uint32_t most)
      : most_(std::bit_ceil(std::max(most, first_size))) {
    resize(first_size);
  }

  [[nodiscard]] std::uint32_t most() const noexcept { return most_; }
  [[nodiscard]] std::uint32_t size() const noexcept {
    return static_cast<std::uint32_t>(head_ - tail_);
  }
  [[nodiscard]] std::uint32_t capacity() const noexcept { return mask_ + 1; }
  [[nodiscard]] access_entry& at(access_ref ref) noexcept {
    return entries_[ref & mask_];
  }
  [[nodiscard]] const access_entry& at(access_ref ref) const noexcept {
    return entries_[ref & mask_];
  }
  /// A number from so long ago that it has come round again may be taken for a live one:
  /// then it names a live access that was not meant, and never one that is gone.
  [[nodiscard]] bool alive(access_ref ref) const noexcept {
    return ((ref - static_cast<access_ref>(tail_)) & ref_mask) < size();
  }
  /// What is alive, for many questions while nothing is added or taken out.
  struct live_range {
    access_ref oldest;
    std::uint32_t size;
    [[nodiscard]] bool has(access_ref ref) const noexcept {
      return ((ref - oldest) & ref_mask) < size;
    }
  };
  [[nodiscard]] live_range live() const noexcept { return {oldest(), size()}; }
  [[nodiscard]] access_ref oldest() const noexcept {
    return static_cast<access_ref>(tail_) & ref_mask;
  }
  /// Adds an access, whose entry is to be filled. @pre size() < most()
  [[nodiscard]] access_ref push() {
    if (size() == capacity()) {
      resize(capacity() * 2);
    }
    return static_cast<access_ref>(head_++) & ref_mask;
  }
  void pop(std::uint32_t count) noexcept { tail_ += count; }

 private:
  static constexpr std::uint32_t first_size = 512;

  void resize(std::uint32_t size) {
    auto larger = std::make_unique<access_entry[]>(size);
    for (std::uint64_t i = tail_; i != head_; ++i) {
      larger[i & (size - 1)] = entries_[i & mask_];
    }
    entries_ = std::move(larger);
    mask_ = size - 1;
  }

  std::unique_ptr<access_entry[]> entries_;
  std::uint32_t mask_ = 0;
  std::uint32_t most_;
  std::uint64_t head_ = 1;
  std::uint64_t tail_ = 1;
};

}  // namespace weir::runtime
