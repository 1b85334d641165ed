// SPDX-License-Identifier: Apache-2.0
/// @file
/// The places of blocks of fresh memory in a ring.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "weir/runtime/tensor.hpp"

namespace weir::runtime {

/// Blocks are added at the head and removed at the tail, in the same order. No block lies
/// across the end of the ring. Positions grow without wrapping around (a byte lies at its
/// position modulo the capacity), so that a full ring differs from an empty one.
/// @source{TensorMap design, 2.2 and 6.2}
/// @threads{thread-compatible}
class heap_ring {
 public:
  static constexpr std::uint64_t alignment = 64;

  struct block {
    std::uint64_t begin = 0;  ///< positions
    std::uint64_t end = 0;
    storage_id id;
  };

  /// Rounds the capacity up to the alignment.
  explicit heap_ring(std::uint64_t capacity) : capacity_(rounded(capacity)) {}

  [[nodiscard]] static constexpr std::uint64_t rounded(std::uint64_t bytes) noexcept {
    return (bytes + alignment - 1) / alignment * alignment;
  }
  [[nodiscard]] std::uint64_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] const std::deque<block>& blocks() const noexcept { return blocks_; }

  /// Number of the oldest blocks that must be removed before a block of `bytes` fits.
  /// @pre 0 < bytes <= capacity(), a multiple of the alignment
  [[nodiscard]] std::size_t in_the_way(std::uint64_t bytes) const noexcept;
  /// Offset in the ring at which a block of `bytes` will lie. @pre in_the_way(bytes) == 0
  [[nodiscard]] std::uint64_t next(std::uint64_t bytes) const noexcept {
    return begin_of(bytes) % capacity_;
  }
  /// Adds a block at the offset that `next(bytes)` returns.
  void add(std::uint64_t bytes, storage_id id);
  /// Removes the oldest block. @pre there is one
  void pop() noexcept;
  /// Capacity of a ring in which a block of `bytes` would fit beside the blocks from
  /// index `first` on, and in which all that fitted into this ring fits as well.
  [[nodiscard]] std::uint64_t enough(std::size_t first,
                                     std::uint64_t bytes) const noexcept;

 private:
  [[nodiscard]] std::uint64_t begin_of(std::uint64_t bytes) const noexcept {
    const std::uint64_t place = head_ % capacity_;
    return place + bytes > capacity_ ? head_ + (capacity_ - place) : head_;
  }

  std::uint64_t capacity_;
  std::uint64_t head_ = 0;
  std::uint64_t largest_ = 0;  ///< bytes of the largest block so far
  std::deque<block> blocks_;
};

}  // namespace weir::runtime
