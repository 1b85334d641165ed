// SPDX-License-Identifier: Apache-2.0
/// @file
/// What graphs of a program hold, operation by operation.
#pragma once

#include <map>
#include <vector>

#include "serial/program.hpp"

namespace weir::test::serial {

/// One node that touches memory; of a graph in a graph, what that held when it was
/// recorded.
struct graph_step {
  operation what;
  std::vector<graph_step> inside;
};

/// Follows a program operation by operation.
class graph_book {
 public:
  void take(const operation& o);
  [[nodiscard]] const std::vector<graph_step>& of(int graph) const;
  /// The node that this operation has become; null if the graph has none such.
  [[nodiscard]] const graph_step* node(int graph, int id) const;
  /// Buffers that the graph takes and does not give back.
  [[nodiscard]] std::vector<int> left_by(int graph) const;

 private:
  std::map<int, std::vector<graph_step>> graphs_;
};

/// The recorded operation as an update makes it.
[[nodiscard]] operation updated(const operation& recorded, const operation& update);

}  // namespace weir::test::serial
