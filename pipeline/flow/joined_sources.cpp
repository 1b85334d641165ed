// SPDX-License-Identifier: Apache-2.0
/// @file
/// Groups of sources, and the items that all of a group have read.
#include "flow/joined_sources.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace weir::flow {

void joined_sources::find(const graph& g,
                          const std::vector<std::unique_ptr<stage_run>>& stages) {
  std::vector<std::size_t> part(stages.size());  // the smallest stage that is connected
  std::iota(part.begin(), part.end(), std::size_t{0});
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
    if (members.size() > 1) {
      groups_.push_back(members);
      for (stage_run* one : members) {
        one->join_others();
        group_of_[one->index] = groups_.size();
      }
    }
  }
}

result<void> joined_sources::release(std::uint32_t source) const {
  if (group_of_[source] == 0) {
    return {};
  }
  const std::vector<stage_run*>& group = groups_[group_of_[source] - 1];
  std::uint64_t read_by_all = std::numeric_limits<std::uint64_t>::max();
  for (const stage_run* one : group) {
    if (!one->end_read()) {
      read_by_all = std::min(read_by_all, one->filled());
    }
  }
  for (stage_run* one : group) {
    WEIR_CHECK(one->release(read_by_all));
  }
  return {};
}

}  // namespace weir::flow
