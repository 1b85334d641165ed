// SPDX-License-Identifier: Apache-2.0
/// @file
/// Where blocks lie in the ring, and how large a ring would do.
///
/// Positions grow without limit; a byte lies at its position modulo the capacity.
///
///    0                                              capacity
///    [ free |  oldest block | ... | newest block | free ]
///           ^ blocks_.front().begin              ^ head_
///
/// A block that would cross the end of the ring begins at the next multiple of the
/// capacity instead, and the rest of the ring stays free until the ring comes around.
#include "scopes/heap_ring.hpp"

#include <algorithm>

namespace weir::runtime {

// A block is in the way if the new one would end more than a capacity behind its
// beginning.
std::size_t heap_ring::in_the_way(std::uint64_t bytes) const noexcept {
  const std::uint64_t end = begin_of(bytes) + bytes;
  std::size_t count = 0;
  while (count < blocks_.size() && end - blocks_[count].begin > capacity_) {
    ++count;
  }
  return count;
}

// The largest size is kept for `enough`.
void heap_ring::add(std::uint64_t bytes, storage_id id) {
  const std::uint64_t begin = begin_of(bytes);
  blocks_.push_back({begin, begin + bytes, id});
  head_ = begin + bytes;
  largest_ = std::max(largest_, bytes);
}

void heap_ring::pop() noexcept {
  blocks_.pop_front();
  if (blocks_.empty()) {
    head_ = 0;  // all of the ring is in one piece again
  }
}

// The answer is generous: it allows for the part at the end of the ring that a block
// cannot use.
std::uint64_t heap_ring::enough(std::size_t first, std::uint64_t bytes) const noexcept {
  std::uint64_t sum = bytes;
  for (std::size_t i = first; i < blocks_.size(); ++i) {
    sum += blocks_[i].end - blocks_[i].begin;
  }
  // The part of the ring that stays free at its end is smaller than one block.
  return std::max(sum, capacity_) + std::max(largest_, bytes);
}

}  // namespace weir::runtime
