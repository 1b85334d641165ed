// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about stages without work.
#include "chains.hpp"
#include "rows.hpp"
#include "runtime/passes.hpp"

namespace weir::bench {
namespace {

constexpr std::uint64_t items = 8'000;
constexpr std::size_t samples = 9;

/// Returns the nanoseconds of one further stage.
template <class Stage>
double hop_ns(unsigned workers) {
  return 1e9 * quiet_median(workers, samples, [workers] {
           return further_stage([workers](int stages) {
             return chain_seconds<Stage>(workers, stages, items);
           });
         });
}

/// Returns the nanoseconds of an item in a pipeline of three stages without tasks.
double item_ns() {
  return 1e9 *
         quiet_median(1, samples, [] { return chain_seconds<passing>(1, 3, items); });
}

/// Returns how many times as long as an item of 64 bytes an item of 1 MiB takes.
double mib_ratio() {
  constexpr std::int64_t words = (1 << 20) / 8;
  return quiet_median(1, samples, [] {
    const double large = chain_seconds<passing, words>(1, 3, items);
    return large / chain_seconds<passing>(1, 3, items);
  });
}

/// Returns the nanoseconds of an empty task in a chain, without a pipeline.
double engine_chain_ns() {
  auto e = make_engine(1, 256);
  const bound_graph graph(*e, graph_named("chain"));
  return pass_ns(1, graph.size(), [&] {
    graph.submit_to(*e);
    or_throw(e->wait_all());
  });
}

/// The limit is the cost of an empty task without a pipeline, and 25 ns.
measured task_hop() {
  const double task = engine_chain_ns();
  return {hop_ns<empty_task>(1), task, at_most(task + 25)};
}

}  // namespace

void add_hop_rows(program& bench) {
  bench.add("pipe_hop_ns", "ns", at_most(16), [] { return hop_ns<passing>(1); });
  // The limits of these two rows are those of their ratios, see peers.py.
  bench.add("pipe_item_ns", "ns", no_bar, [] { return item_ns(); });
  bench.add("pipe_task_hop_2_ns", "ns", no_bar, [] { return hop_ns<empty_task>(2); });
  bench.add("pipe_task_hop_1_ns", "ns", no_bar, [] { return task_hop(); });
  bench.add("pipe_mib_ratio", "ratio", at_most(1.05), [] { return mib_ratio(); });
}

}  // namespace weir::bench
