// SPDX-License-Identifier: Apache-2.0
/// @file
/// Which bytes of a ring belong to which block of fresh memory.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "weir/runtime/tensor.hpp"

namespace weir::runtime {

/// Blocks are made at the head and go at the tail, in the same order. None lies across
/// the end of the ring. Positions count on and on, so that full and empty differ.
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

  /// Bytes, rounded up to the alignment.
  explicit heap_ring(std::uint64_t capacity) : capacity_(rounded(capacity)) {}

  [[nodiscard]] static constexpr std::uint64_t rounded(std::uint64_t bytes) noexcept {
    return (bytes + alignment - 1) / alignment * alignment;
  }
  [[nodiscard]] std::uint64_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] const std::deque<block>& blocks() const noexcept { return blocks_; }

  /// How many of the oldest blocks are in the way of one of `bytes`.
  /// @pre 0 < bytes <= capacity(), a multiple of the alignment
  [[nodiscard]] std::size_t in_the_way(std::uint64_t bytes) const noexcept;
  /// Where a block of `bytes` will lie, in bytes from the start of the ring. @pre nothing
  /// is in its way
  [[nodiscard]] std::uint64_t next(std::uint64_t bytes) const noexcept {
    return begin_of(bytes) % capacity_;
  }
  /// Adds the block that `next` has told of.
  void add(std::uint64_t bytes, storage_id id);
  /// The oldest block goes. @pre there is one
  void pop() noexcept;
  /// Size of a ring in which a block of `bytes` would have fitted with the blocks from
  /// number `first` on still there, and whatever has fitted into this one as well.
  [[nodiscard]] std::uint64_t enough(std::size_t first,
                                     std::uint64_t bytes) const noexcept;

 private:
  [[nodiscard]] std::uint64_t begin_of(std::uint64_t bytes) const noexcept {
    const std::uint64_t place = head_ % capacity_;
    return place + bytes > capacity_ ? head_ + (capacity_ - place) : head_;
  }

  std::uint64_t capacity_;
  std::uint64_t head_ = 0;
  std::uint64_t largest_ = 0;  ///< block so far
  std::deque<block> blocks_;
};

}  // namespace weir::runtime
