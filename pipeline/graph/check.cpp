// SPDX-License-Identifier: Apache-2.0
/// @file
/// The check of a graph: the steps that make a plan of it, in their order.
///
/// Every step needs the results of the steps before it: the order needs edges, types need
/// nothing, numberings need the order, windows need types and numberings, and memory
/// needs windows.
#include <algorithm>

#include "graph/memory.hpp"
#include "graph/numbering.hpp"
#include "graph/structure.hpp"
#include "graph/types.hpp"
#include "graph/windows.hpp"
#include "weir/pipeline/graph.hpp"

namespace weir::flow {
namespace {

// Sources and sinks decide what survives a crash, and stages that ask a clock whether the
// output can be the same again; of equal ones the first is named.
void find_promise(plan& p) {
  // The first stage with the weakest guarantee is the one to be named.
  for (const graph_stage& s : p.source.stages) {
    if (s.info.promise < p.promise) {
      p.promise = s.info.promise;
      p.weakest = s.name;
    }
  }
}

}  // namespace

/// Checks a graph and returns the plan of its run.
result<plan> check(graph g) {
  WEIR_CHECK(check_form(g));
  // Indices of stages and edges are those of the graph from here on.
  plan p;
  p.source = std::move(g);
  p.stages.resize(p.source.stages.size());
  WEIR_CHECK(connect_stages(p));
  WEIR_CHECK(order_stages(p));
  WEIR_CHECK(unify_types(p));
  WEIR_CHECK(number_items(p));
  WEIR_CHECK(size_windows(p));
  WEIR_CHECK(size_memory(p));
  find_promise(p);
  return p;
}

}  // namespace weir::flow
