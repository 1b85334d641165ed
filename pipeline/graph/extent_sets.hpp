// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sets of extents that are known to be equal.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace weir::flow {

/// Extents that are joined to sets of equal extents (union-find). A set has at most one
/// number, and it remembers the letter that an author has written for one of its extents.
/// @threads{confined to one thread}
class extent_sets {
 public:
  /// Adds an extent in a set of its own and returns its index.
  /// @param letter  Letter of the extent, or '\0' if it has none.
  std::int32_t add(std::optional<std::int64_t> number, char letter);
  /// Joins the sets of two extents.
  /// @returns False, and changes nothing, if the sets have different numbers.
  [[nodiscard]] bool join(std::int32_t a, std::int32_t b);

  /// Returns the extent that stands for the set of an extent.
  [[nodiscard]] std::int32_t root(std::int32_t extent) const;
  /// Returns the number of the set of an extent, if it is known.
  [[nodiscard]] std::optional<std::int64_t> number(std::int32_t extent) const;
  /// Returns the first letter, in the order of the alphabet, of the extents of a set, or
  /// '\0' if they have none.
  [[nodiscard]] char letter(std::int32_t extent) const;

 private:
  struct node {
    std::int32_t parent = 0;
    std::optional<std::int64_t> number;
    char letter = '\0';
  };
  std::vector<node> nodes_;
};

}  // namespace weir::flow
