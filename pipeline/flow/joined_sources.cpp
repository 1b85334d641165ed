// SPDX-License-Identifier: Apache-2.0
/// @file
/// Groups of sources, and the items that all of a group have read.
///
/// Two sources are in one group if the pipeline connects them, in any direction. A
/// barrier must stand at the same item for all of them, because a stage behind them takes
/// items with equal numbers. Items are therefore handed on only when all sources of the
/// group have read the item of this number.
#include "flow/joined_sources.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace weir::flow {

/// Finds the groups: stages that an edge connects get the same number, until nothing
/// changes. A source that is alone in its part is not joined.
void joined_sources::find(const graph& g,
                          const std::vector<std::unique_ptr<stage_run>>& stages) {
  std::vector<std::size_t> part(stages.size());  // the smallest stage that is connected
  std::iota(part.begin(), part.end(), std::size_t{0});
  // Repeats until no edge joins two parts any more.
  for (bool changed = true; changed;) {
    changed = false;
    for (const graph_edge& e : g.edges) {
      changed = changed || part[e.from] != part[e.to];
      part[e.from] = part[e.to] = std::min(part[e.from], part[e.to]);
    }
  }
  group_of_.assign(stages.size(), 0);
  for (std::size_t smallest = 0; smallest < stages.size(); ++smallest) {
    std::vector<stage_run*> members;
    for (std::size_t i = 0; i < stages.size(); ++i) {
      if (part[i] == smallest && stages[i]->info().face == face::source) {
        members.push_back(stages[i].get());
      }
    }
    // A single source needs no other one to have read.
    if (members.size() > 1) {
      groups_.push_back(members);
      for (stage_run* one : members) {
        one->join_others();
        group_of_[one->index] = groups_.size();
      }
    }
  }
}

/// Called after an item or an end of a source. Hands on what all sources of its group
/// have read. A source that has ended does not hold the others up.
result<void> joined_sources::release(std::uint32_t source) const {
  if (group_of_[source] == 0) {
    return {};
  }
  const std::vector<stage_run*>& group = groups_[group_of_[source] - 1];
  // The smallest number that some source has not read.
  std::uint64_t read_by_all = std::numeric_limits<std::uint64_t>::max();
  for (const stage_run* one : group) {
    if (!one->end_read()) {
      read_by_all = std::min(read_by_all, one->filled());
    }
  }
  // Items of any source of the group may be free now.
  for (stage_run* one : group) {
    WEIR_CHECK(one->release(read_by_all));
  }
  return {};
}

}  // namespace weir::flow
