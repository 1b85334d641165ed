// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about captured graphs: the cost of an empty task when its graph is replayed.
#include <array>
#include <vector>

#include "passes.hpp"
#include "rows.hpp"

namespace weir::bench {
namespace {

using namespace weir::runtime;

constexpr double max_ns = 60;

/// Measures passes that consist of a replay and a wait for all of it.
double replay_ns(const std::string& name, unsigned workers) {
  auto e = make_engine(workers, 8192);
  const bound_graph graph(*e, graph_named(name));
  or_throw(e->begin_capture());
  graph.submit_to(*e);
  const capture captured = or_throw(e->end_capture());
  return pass_ns(workers, graph.size(), [&] {
    keep(*e->replay(captured));
    or_throw(e->wait_all());
  });
}

/// Measures the submission alone of 100 tasks with the accesses of a stencil, after work
/// that has displaced everything from the near caches.
double cold_submit_ns(bool replays) {
  auto e = make_engine(1, 4096);
  std::vector<cell_task> tasks = graph_named("stencil_w8");
  tasks.resize(100);
  const bound_graph graph(*e, tasks);
  or_throw(e->begin_capture());
  graph.submit_to(*e);
  const capture captured = or_throw(e->end_capture());
  or_throw(e->wait_all());
  std::vector<std::uint64_t> other(1 << 18);  // 2 MiB
  const double seconds = quiet_median(1, 200, [&] {
    for (std::uint64_t& word : other) {
      word += 1;
    }
    const double took = thread_seconds_of([&] {
      if (replays) {
        keep(*e->replay(captured));
      } else {
        graph.submit_to(*e);
      }
    });
    or_throw(e->wait_all());
    return took;
  });
  keep(other);
  return seconds * 1e9 / 100;
}

}  // namespace

void add_replay_rows(program& bench) {
  for (const graph_row& row : graph_rows) {
    const std::string name = row.name;
    bench.add("replay_" + name + "_1_ns", "ns", at_most(max_ns),
              [=, peer = row.static_1] {
                return measured::beside_record(replay_ns(name, 1), peer);
              });
    bench.add("replay_" + name + "_2_ns", "ns", no_bar, [=, peer = row.static_2] {
      return measured::beside_record(replay_ns(name, 2), peer);
    });
  }
  for (const graph_row& row : one_worker_rows) {
    bench.add(std::string("replay_") + row.name + "_1_ns", "ns", at_most(max_ns), [row] {
      return measured::beside_record(replay_ns(row.name, 1), row.static_1);
    });
  }
  bench.add("replay_task_ns", "ns", at_most(max_ns),
            [] { return replay_ns("stencil_w8", 1); });
  bench.add("cold_submit_ns", "ns", no_bar, [] { return cold_submit_ns(false); });
  bench.add("cold_replay_ns", "ns", at_most(max_ns), [] { return cold_submit_ns(true); });
}

}  // namespace weir::bench
