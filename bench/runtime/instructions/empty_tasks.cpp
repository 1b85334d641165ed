// SPDX-License-Identifier: Apache-2.0
/// @file
/// Empty tasks by one worker: empty_tasks submitted|access|replayed TASKS PASSES, with at
/// most 4,096 tasks in each pass. Callgrind counts its instructions.
///
/// No task ends later than its kernel, so that the difference of two counts shows what
/// such tasks cost the others.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "passes.hpp"

namespace {

using namespace weir::bench;

/// Returns the graph of a kind: tasks without an access, with one write each, or a chain.
std::string graph_of(std::string_view kind) {
  if (kind == "submitted") {
    return "indep";
  }
  return kind == "access" ? "indep_w" : "chain";
}

void run(std::string_view kind, std::size_t count, long passes) {
  const auto e = make_engine(1, 8192);
  std::vector<cell_task> tasks = graph_named(graph_of(kind));
  tasks.resize(std::min(count, tasks.size()));
  const bound_graph graph(*e, std::move(tasks));
  if (kind != "replayed") {
    for (long i = 0; i < passes; ++i) {
      graph.submit_to(*e);
      or_throw(e->wait_all());
    }
    return;
  }
  or_throw(e->begin_capture());
  graph.submit_to(*e);
  const auto captured = or_throw(e->end_capture());
  for (long i = 0; i < passes; ++i) {
    or_throw(e->replay(captured));
    or_throw(e->wait_all());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: empty_tasks submitted|access|replayed TASKS PASSES\n");
    return 2;
  }
  try {
    run(argv[1], std::strtoul(argv[2], nullptr, 10), std::strtol(argv[3], nullptr, 10));
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "empty_tasks: %s\n", e.what());
    return 1;
  }
}
