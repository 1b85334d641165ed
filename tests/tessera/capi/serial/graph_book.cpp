// SPDX-License-Identifier: Apache-2.0
/// @file
/// Records the nodes of graphs, applies updates to them, and copies the nodes of a graph
/// that is launched into another.
#include "serial/graph_book.hpp"

#include <algorithm>

namespace weir::test::serial {

void graph_book::take(const operation& o) {
  if (o.what == verb::update_node) {
    for (graph_step& step : graphs_[o.graph]) {
      if (step.what.id == o.node) {
        step.what = updated(step.what, o);
      }
    }
  } else if (o.recorded_in != none && o.alters_memory()) {
    std::vector<graph_step> inside;
    if (o.what == verb::launch_graph) {
      inside = of(o.graph);
    }
    graphs_[o.recorded_in].push_back({o, std::move(inside)});
  }
}

const std::vector<graph_step>& graph_book::of(int graph) const {
  static const std::vector<graph_step> nothing;
  const auto found = graphs_.find(graph);
  return found == graphs_.end() ? nothing : found->second;
}

const graph_step* graph_book::node(int graph, int id) const {
  for (const graph_step& step : of(graph)) {
    if (step.what.id == id) {
      return &step;
    }
  }
  return nullptr;
}

std::vector<int> graph_book::left_by(int graph) const {
  std::vector<int> out;
  for (const graph_step& step : of(graph)) {
    if (step.what.what == verb::take_memory) {
      out.push_back(step.what.to.buffer);
    } else if (step.what.what == verb::give_memory) {
      std::erase(out, step.what.to.buffer);
    }
  }
  return out;
}

operation updated(const operation& recorded, const operation& update) {
  operation out = update;
  out.what = update.becomes;
  out.id = recorded.id;
  out.stream = recorded.stream;
  out.recorded_in = recorded.recorded_in;
  out.runs = recorded.runs;
  out.graph = none;
  out.node = none;
  return out;
}

}  // namespace weir::test::serial
