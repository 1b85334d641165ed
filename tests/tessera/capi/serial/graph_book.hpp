// SPDX-License-Identifier: Apache-2.0
/// @file
/// Keeps the nodes of each graph of a program, as one operation after another is
/// executed.
#pragma once

#include <map>
#include <vector>

#include "serial/program.hpp"

namespace weir::test::serial {

/// A node of a graph. For a launch of another graph, `inside` holds the nodes which that
/// graph had when the launch was recorded.
struct graph_step {
  operation what;
  std::vector<graph_step> inside;
};

/// Follows a program operation by operation and knows the nodes of its graphs.
class graph_book {
 public:
  /// Records the operation if a graph captures it, or applies it if it is an update.
  void take(const operation& o);
  [[nodiscard]] const std::vector<graph_step>& of(int graph) const;
  /// Returns the node that was recorded for operation `id`, or null if the graph has
  /// none.
  [[nodiscard]] const graph_step* node(int graph, int id) const;
  /// Returns the buffers that the graph allocates and does not free.
  [[nodiscard]] std::vector<int> left_by(int graph) const;

 private:
  std::map<int, std::vector<graph_step>> graphs_;
};

/// Returns the recorded operation with the changes of an update.
[[nodiscard]] operation updated(const operation& recorded, const operation& update);

}  // namespace weir::test::serial
