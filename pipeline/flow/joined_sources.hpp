// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sources whose items meet in later stages. A barrier stands behind the same number at
/// all of them, although they read at different speeds.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "flow/stage_run.hpp"
#include "weir/pipeline/graph.hpp"

namespace weir::flow {

/// The groups of sources that are connected by edges.
///
/// A source of a group with several members hands an item on only when all of them have
/// read the item of that number, or have ended. Stages therefore never see an item that
/// some source still owes, and a barrier may stand behind the items that were handed on
/// at any time, even if a source is quiet for ever.
/// @threads{thread-compatible}
class joined_sources {
 public:
  /// Finds the groups, and lets their sources hold items.
  void find(const graph& g, const std::vector<std::unique_ptr<stage_run>>& stages);
  /// Hands on what all sources of a group have read. @param source Index of one of them.
  [[nodiscard]] result<void> release(std::uint32_t source) const;

 private:
  std::vector<std::vector<stage_run*>> groups_;  ///< those of several members
  std::vector<std::size_t> group_of_;            ///< by stage, counted from 1; 0 for none
};

}  // namespace weir::flow
