// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sets of extents that are known to be equal.
///
/// A set is a tree whose root has the number and the letter, if they are known. Joining
/// two sets with different numbers fails and changes nothing.
#include "graph/extent_sets.hpp"

#include <algorithm>

namespace weir::flow {
namespace {

constexpr std::size_t at_index(std::int32_t extent) noexcept {
  return static_cast<std::size_t>(extent);
}

/// The smaller letter wins, so the result does not depend on the order of joins.
char first_letter(char a, char b) noexcept {
  return a == '\0' || b == '\0' ? std::max(a, b) : std::min(a, b);
}

}  // namespace

/// Adds an extent. `number` and `letter` may be absent.
std::int32_t extent_sets::add(std::optional<std::int64_t> number, char letter) {
  const auto index = static_cast<std::int32_t>(nodes_.size());
  nodes_.push_back({index, number, letter});
  return index;
}

/// Returns the representative of the set of an extent.
std::int32_t extent_sets::root(std::int32_t extent) const {
  while (nodes_[at_index(extent)].parent != extent) {
    extent = nodes_[at_index(extent)].parent;
  }
  return extent;
}

// The parent is the lower index: a graph has few extents, so paths stay short.
bool extent_sets::join(std::int32_t a, std::int32_t b) {
  // The lower representative becomes the parent, which makes the result unique.
  const std::int32_t low = std::min(root(a), root(b));
  const std::int32_t high = std::max(root(a), root(b));
  node& parent = nodes_[at_index(low)];
  node& child = nodes_[at_index(high)];
  // Two different numbers cannot be equal extents.
  if (parent.number && child.number && *parent.number != *child.number) {
    return false;
  }
  if (low != high) {
    child.parent = low;
    // What one of the sets knows is known for both.
    parent.number = parent.number ? parent.number : child.number;
    parent.letter = first_letter(parent.letter, child.letter);
  }
  return true;
}

std::optional<std::int64_t> extent_sets::number(std::int32_t extent) const {
  return nodes_[at_index(root(extent))].number;
}

char extent_sets::letter(std::int32_t extent) const {
  return nodes_[at_index(root(extent))].letter;
}

}  // namespace weir::flow
