// SPDX-License-Identifier: Apache-2.0
/// @file
/// The edges inside a capture, without those that other edges imply.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "map/predecessors.hpp"

namespace weir::runtime {

/// Edges between tasks that are numbered in order of submission.
/// @threads{thread-compatible}
class graph_edges {
 public:
  struct edge {
    std::uint32_t to = 0;
    hazard why = hazard::raw;
  };

  explicit graph_edges(std::size_t tasks) : after_(tasks) {}

  /// @pre from < to; each pair once
  void add(std::uint32_t from, std::uint32_t to, hazard why) {
    after_[from].push_back({to, why});
  }
  /// Drops every edge that other edges imply, that is, edges that order the two tasks
  /// and, if this edge carries failures, carry failures too.
  void reduce();
  /// Returns the edges to the successors of a task, oldest successor first.
  [[nodiscard]] std::span<const edge> edges_from(std::uint32_t from) const noexcept {
    return after_[from];
  }

 private:
  std::vector<std::vector<edge>> after_;
};

}  // namespace weir::runtime
