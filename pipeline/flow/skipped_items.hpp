// SPDX-License-Identifier: Apache-2.0
/// @file
/// The items that a run reads and does not process. Checkpoints hold the ranges, so that
/// a resumed run and whoever looks at it later know which items the outputs lack.
#pragma once

#include <cstdint>
#include <vector>

#include "weir/pipeline/host/image.hpp"

namespace weir::flow {

/// Ranges of item numbers.
/// @threads{thread-compatible}
class skipped_items {
 public:
  /// Takes the ranges of an image, if there is one, and adds those of the run.
  /// @error{invalid_argument, a range is empty, or begins before the first item of the
  /// run}
  /// @error{corrupt, the section of the image has a wrong size}
  [[nodiscard]] static result<skipped_items> create(const std::vector<item_range>& added,
                                                    const image* from);
  /// Returns whether an item is in a range. Most runs have none.
  [[nodiscard]] bool contain(std::uint64_t seq) const noexcept {
    return !ranges_.empty() && some_contains(seq);
  }
  /// Adds the ranges to an image, unless there are none.
  void store(image& to) const;

 private:
  [[nodiscard]] bool some_contains(std::uint64_t seq) const noexcept;
  std::vector<item_range> ranges_;  ///< in the order in which they were asked for
};

}  // namespace weir::flow
