// SPDX-License-Identifier: Apache-2.0
/// @file
/// The ring of live accesses: those of tasks that have not been retired, in the order of
/// their registration.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>

#include "weir/base/system/prefetch.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::runtime {

/// Number of an access in the order of registration, modulo 2^31. Links store this short
/// form.
using access_ref = std::uint32_t;
inline constexpr access_ref ref_mask = 0x7FFFFFFFU;

/// One access of one task, with everything that a look-up of dense regions needs.
struct alignas(32) access_entry {
  std::int64_t lo = 0;
  std::int64_t hi = 0;
  task_id task = 0;
  std::uint64_t tag = 0;  ///< number in the order of registration times 4, plus two flags

  /// Returns the number in the order of registration, or its short form.
  [[nodiscard]] std::uint64_t number() const noexcept { return tag >> 2; }
  [[nodiscard]] access_ref ref() const noexcept {
    return static_cast<access_ref>(tag >> 2) & ref_mask;
  }
  /// Returns true if the access covers all bytes of [lo, hi).
  [[nodiscard]] bool dense() const noexcept { return (tag & 1) == 0; }
  /// Returns true if the access is dense and commutes with no other access.
  [[nodiscard]] bool plain() const noexcept { return (tag & 3) == 0; }
  /// Returns true if the access belongs to a task that commutes in any order.
  [[nodiscard]] bool any_order() const noexcept { return (tag & 2) != 0; }
  /// Returns true if [lo, hi) and [from, to) share a byte.
  [[nodiscard]] bool meets(std::int64_t from, std::int64_t to) const noexcept {
    return lo < to && from < hi;
  }
  /// Removes [from, to), which meets the access, from its bytes if one interval is left.
  /// Returns true if nothing is left. If [from, to) lies in the middle, nothing is
  /// removed. @pre plain()
  bool take(std::int64_t from, std::int64_t to) noexcept {
    if (from > lo) {
      hi = to >= hi ? from : hi;
      return false;
    }
    lo = to;
    return to >= hi;
  }
};
static_assert(sizeof(access_entry) == 32);

/// An access that lies in the grid: one cache line with its links.
struct alignas(64) grid_entry {
  access_entry entry;
  /// First cell that it is linked into. The access may begin later, because a write may
  /// have taken bytes from it since.
  std::int64_t first_cell = 0;
  std::uint32_t owner = 0;  ///< index that the access belongs to
  /// Links to the next older accesses in the one or two cells that it touches. A link is
  /// the number of an access times 2, plus the cell's index in that access.
  std::array<std::uint32_t, 2> next{};
  access_ref level_next = 0;  ///< next older access in its level
  std::uint8_t level = 0;
  /// number of cells; 0: pruned, because a later write covers it
  std::uint8_t cells = 0;

  [[nodiscard]] bool pruned() const noexcept { return cells == 0; }
};
static_assert(sizeof(grid_entry) == 64);

/// A ring of accesses. It doubles when it is full, up to a limit, so that few accesses
/// stay in few cache lines. It knows the owner of each access (the index that the access
/// belongs to). The access itself lies in its index, or here if it is in the grid
/// ("far").
/// @threads{thread-compatible}
class access_ring {
 public:
  /// Makes an empty ring for at least `max_size` accesses, as far as that is possible.
  explicit access_ring(std::uint32_t max_size)
      : max_size_(std::bit_ceil(std::clamp(max_size, first_size, largest_size))) {
    resize(first_size);
  }

  [[nodiscard]] std::uint32_t max_size() const noexcept { return max_size_; }
  /// Returns the number of live accesses.
  [[nodiscard]] std::uint32_t size() const noexcept {
    return static_cast<std::uint32_t>(head_ - tail_);
  }
  [[nodiscard]] std::uint32_t capacity() const noexcept { return mask_ + 1; }
  /// Returns the index that the access belongs to.
  [[nodiscard]] std::uint32_t owner(access_ref ref) const noexcept {
    return owners_[ref & mask_] & ~far_bit;
  }
  /// Returns true if the access is in the grid.
  [[nodiscard]] bool is_far(access_ref ref) const noexcept {
    return (owners_[ref & mask_] & far_bit) != 0;
  }
  /// Returns the access in the grid. @pre is_far(ref)
  [[nodiscard]] grid_entry& far(access_ref ref) noexcept { return far_[ref & mask_]; }
  [[nodiscard]] const grid_entry& far(access_ref ref) const noexcept {
    return far_[ref & mask_];
  }
  /// Marks an access as far. The caller fills in its entry.
  void make_far(access_ref ref) {
    if (far_ == nullptr) {
      far_ = std::make_unique<grid_entry[]>(capacity());
    }
    owners_[ref & mask_] |= far_bit;
  }
  /// Returns true if the access is live. @pre the reference is of one of the last 2^31 -
  /// 2 * max_size() accesses; a reference that is kept for longer must be replaced by
  /// `gone()` in time
  [[nodiscard]] bool alive(access_ref ref) const noexcept {
    return ((ref - static_cast<access_ref>(tail_)) & ref_mask) < size();
  }
  /// Returns true if the access is live. @pre it was registered here
  [[nodiscard]] bool alive(const access_entry& e) const noexcept {
    return e.tag >= oldest_tag();
  }
  /// Returns the smallest tag of a live access; smaller tags are of retired accesses.
  [[nodiscard]] std::uint64_t oldest_tag() const noexcept { return tail_ * 4; }
  /// Returns the number of accesses registered so far.
  [[nodiscard]] std::uint64_t registered() const noexcept { return head_ - 1; }
  /// Returns a reference to an access that is not live.
  [[nodiscard]] access_ref gone() const noexcept {
    return static_cast<access_ref>(tail_ - 1) & ref_mask;
  }
  /// Returns the access that was registered last.
  [[nodiscard]] access_ref newest() const noexcept {
    return static_cast<access_ref>(head_ - 1) & ref_mask;
  }
  [[nodiscard]] access_ref oldest() const noexcept {
    return static_cast<access_ref>(tail_) & ref_mask;
  }
  /// Returns the number of registered accesses at which the ring is full in its present
  /// size.
  [[nodiscard]] std::uint64_t full_at() const noexcept { return tail_ + mask_; }
  /// Provides capacity for `count` more accesses. @pre size() + count <= max_size()
  void reserve(std::size_t count) {
    while (size() + count > capacity()) {
      resize(capacity() * 2);
    }
  }
  /// Adds an access of an owner below 2^31 and returns its tag. @pre there is capacity
  [[nodiscard]] std::uint64_t push(std::uint32_t owner, bool dense,
                                   bool any_order) noexcept {
    owners_[head_ & mask_] = owner;
    return head_++ * 4 + static_cast<std::uint64_t>(any_order) * 2 +
           static_cast<std::uint64_t>(!dense);
  }
  /// Adds an access that lies in the grid. The caller fills in its entry except the tag.
  /// @pre `make_far` was called, and there is capacity
  [[nodiscard]] grid_entry& push_far(std::uint32_t owner, bool dense,
                                     bool any_order) noexcept {
    grid_entry& out = far_[head_ & mask_];
    // The address may lie behind the end of the array; a prefetch ignores that.
    prefetch_to_write(reinterpret_cast<const void*>(
        reinterpret_cast<std::uintptr_t>(&out) + places_ahead * sizeof(grid_entry)));
    out.entry.tag = push(owner | far_bit, dense, any_order);
    return out;
  }
  /// Returns the short form of the number in a tag.
  [[nodiscard]] static access_ref ref_of(std::uint64_t tag) noexcept {
    return static_cast<access_ref>(tag >> 2) & ref_mask;
  }
  /// Retires the oldest `count` accesses.
  void pop(std::uint32_t count) noexcept { tail_ += count; }
  /// Continues the numbers as if `count` more accesses had been registered and retired.
  /// @pre size() == 0
  void skip(std::uint64_t count) noexcept {
    head_ += count;
    tail_ += count;
  }

 private:
  /// Sizes of the ring, the bit of an owner that marks far accesses, and how far ahead
  /// new entries are prefetched.
  static constexpr std::uint32_t first_size = 512;
  static constexpr std::uint32_t largest_size = 1U << 28;
  static constexpr std::uint32_t far_bit = 1U << 31;
  static constexpr std::uint64_t places_ahead = 8;

  /// Moves everything live to arrays of another size, a power of two.
  void resize(std::uint32_t size) {
    auto owners = std::make_unique<std::uint32_t[]>(size);
    auto far = far_ == nullptr ? nullptr : std::make_unique<grid_entry[]>(size);
    for (std::uint64_t i = tail_; i != head_; ++i) {
      owners[i & (size - 1)] = owners_[i & mask_];
      if (far != nullptr) {
        far[i & (size - 1)] = far_[i & mask_];
      }
    }
    owners_ = std::move(owners);
    far_ = std::move(far);
    mask_ = size - 1;
  }

  std::unique_ptr<std::uint32_t[]> owners_;
  std::unique_ptr<grid_entry[]> far_;  ///< null as long as there is no grid
  std::uint32_t mask_ = 0;
  std::uint32_t max_size_;
  std::uint64_t head_ = 1;
  std::uint64_t tail_ = 1;
};

}  // namespace weir::runtime
