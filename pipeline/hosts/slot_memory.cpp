// SPDX-License-Identifier: Apache-2.0
/// @file
/// A list of the free parts of a region. Slots are few and rarely allocated, so the first
/// part that is large enough is taken.
///
/// Both lists are ordered by offset: `free_` has no two neighbouring parts, because
/// `free` joins them, and `used_` knows the size of each part.
#include "weir/pipeline/host/slot_memory.hpp"

#include <algorithm>
#include <functional>
#include <new>
#include <utility>

#include "weir/base/bytes.hpp"

namespace weir::flow {

slot_memory::slot_memory(std::byte* base, std::uint64_t bytes,
                         std::shared_ptr<const void> owner)
    : base_(base), bytes_(bytes), owner_(std::move(owner)) {
  if (bytes != 0) {
    free_.emplace(0, bytes);
  }
}

/// May be called by any thread. A lack of memory for the list is treated as a lack of
/// space.
std::byte* slot_memory::allocate(std::uint64_t bytes) noexcept try {
  // Parts keep the alignment of the region.
  const std::uint64_t size =
      align_up<std::uint64_t>(std::max<std::uint64_t>(bytes, 1), alignment);
  const std::lock_guard hold(lock_);
  const auto piece =
      std::ranges::find_if(free_, [&](const auto& one) { return one.second >= size; });
  if (piece == free_.end()) {
    return nullptr;
  }
  // The rest of the part stays free, in the same node of the map.
  const auto [offset, whole] = *piece;
  // The used part is recorded before the free one changes, so a failure leaves both lists
  // as they were.
  used_.emplace(offset, size);
  auto node = free_.extract(piece);
  if (whole != size) {
    node.key() = offset + size;
    node.mapped() = whole - size;
    free_.insert(std::move(node));
  }
  return base_ + offset;
} catch (const std::bad_alloc&) {
  return nullptr;
}

// The entry moves from one list to the other, so that nothing is allocated here.
// An unknown address changes nothing.
void slot_memory::free(std::byte* part) noexcept {
  const std::lock_guard hold(lock_);
  auto node = used_.extract(static_cast<std::uint64_t>(part - base_));
  if (!node.empty()) {
    join_free(free_.insert(std::move(node)).position);
  }
}

/// Joins a free part with its neighbours.
void slot_memory::join_free(pieces::iterator piece) noexcept {
  // The part behind it, then the part before it.
  if (const auto next = std::next(piece);
      next != free_.end() && piece->first + piece->second == next->first) {
    piece->second += next->second;
    free_.erase(next);
  }
  if (piece != free_.begin()) {
    const auto before = std::prev(piece);
    if (before->first + before->second == piece->first) {
      before->second += piece->second;
      free_.erase(piece);
    }
  }
}

/// Compares without adding to `first`, which may be any address.
bool slot_memory::holds(const std::byte* first, std::uint64_t bytes) const noexcept {
  const std::less_equal<> before;
  return bytes <= bytes_ && before(base_, first) &&
         before(first, base_ + (bytes_ - bytes));
}

}  // namespace weir::flow
