// SPDX-License-Identifier: Apache-2.0
/// @file
/// The same chains as pipelines and flow graphs of oneTBB. Empty if the library is not
/// installed.
#include "rows.hpp"

#if defined(WEIR_BENCH_TBB)
#include <tbb/flow_graph.h>
#include <tbb/parallel_pipeline.h>
#include <tbb/task_arena.h>

#include <cstdint>
#include <deque>
#include <string>

#include "chains.hpp"
#include "loads.hpp"

namespace weir::bench {
namespace {

constexpr std::uint64_t empty_items = 8'000;
constexpr std::uint64_t work_items = 1'500;
constexpr std::size_t samples = 9;

/// An item: its number, and the memory that it names.
struct named_item {
  std::uint64_t number = 0;
  std::uint64_t* memory = nullptr;
};

/// The chain that is measured.
struct chain {
  int stages = 1;
  std::uint64_t items = 0;
  std::int64_t iterations = 0;  ///< of the work of each stage

  [[nodiscard]] named_item pass(named_item item) const {
    if (iterations != 0) {
      work(iterations);
    }
    keep(item.memory);
    return item;
  }
};

void run_pipeline(const chain& c, tbb::filter_mode mode) {
  std::uint64_t made = 0;
  std::uint64_t sum = 0;
  std::uint64_t memory = 0;
  tbb::filter<void, named_item> all(tbb::filter_mode::serial_in_order,
                                    [&](tbb::flow_control& control) -> named_item {
                                      if (made == c.items) {
                                        control.stop();
                                        return {};
                                      }
                                      return {made++, &memory};
                                    });
  for (int i = 0; i < c.stages; ++i) {
    all = all & tbb::filter<named_item, named_item>(
                    mode, [&c](named_item item) { return c.pass(item); });
  }
  const tbb::filter<named_item, void> sink(
      tbb::filter_mode::serial_in_order, [&sum](named_item item) { sum += item.number; });
  tbb::parallel_pipeline(chain_window, all & sink);
  keep(sum);
}

void run_graph(const chain& c) {
  using stage = tbb::flow::function_node<named_item, named_item>;
  tbb::flow::graph g;
  std::uint64_t made = 0;
  std::uint64_t sum = 0;
  std::uint64_t memory = 0;
  tbb::flow::input_node<named_item> source(g,
                                           [&](tbb::flow_control& control) -> named_item {
                                             if (made == c.items) {
                                               control.stop();
                                               return {};
                                             }
                                             return {made++, &memory};
                                           });
  tbb::flow::limiter_node<named_item> limiter(g, chain_window);
  tbb::flow::function_node<named_item, tbb::flow::continue_msg> sink(
      g, tbb::flow::serial, [&sum](named_item item) {
        sum += item.number;
        return tbb::flow::continue_msg();
      });
  std::deque<stage> stages;
  tbb::flow::make_edge(source, limiter);
  tbb::flow::sender<named_item>* last = &limiter;
  for (int i = 0; i < c.stages; ++i) {
    stages.emplace_back(g, tbb::flow::serial,
                        [&c](named_item item) { return c.pass(item); });
    tbb::flow::make_edge(*last, stages.back());
    last = &stages.back();
  }
  tbb::flow::make_edge(*last, sink);
  tbb::flow::make_edge(sink, limiter.decrementer());
  source.activate();
  g.wait_for_all();
  keep(sum);
}

/// A way of TBB to run a chain.
struct way {
  const char* name;
  void (*run)(const chain&);
};
constexpr way serial{"tbb_serial", [](const chain& c) {
                       run_pipeline(c, tbb::filter_mode::serial_in_order);
                     }};
constexpr way parallel{
    "tbb_parallel", [](const chain& c) { run_pipeline(c, tbb::filter_mode::parallel); }};
constexpr way flow_graph{"tbb_flow", [](const chain& c) { run_graph(c); }};

/// Returns the seconds per item: processor time with one worker.
double seconds_of_chain(const way& with, unsigned workers, const chain& c) {
  tbb::task_arena arena(static_cast<int>(workers));
  chain first = c;
  first.items = c.items / 10;
  arena.execute([&] { with.run(first); });
  const auto once = [&] { arena.execute([&] { with.run(c); }); };
  const double seconds = workers == 1 ? thread_seconds_of(once) : seconds_of(once);
  return seconds / static_cast<double>(c.items);
}

double hop_ns(const way& with, unsigned workers) {
  return 1e9 * quiet_median(workers, samples, [&] {
           return further_stage([&](int stages) {
             return seconds_of_chain(with, workers, {stages, empty_items, 0});
           });
         });
}
double item_ns(const way& with) {
  return 1e9 * quiet_median(1, samples, [&] {
           return seconds_of_chain(with, 1, {3, empty_items, 0});
         });
}
double work_us(const way& with) {
  const chain c{work_stages, work_items, iterations_for(stage_work_ns)};
  return 1e6 * quiet_median(2, samples, [&] { return seconds_of_chain(with, 2, c); });
}

}  // namespace

void add_tbb_rows(program& bench) {
  for (const way& with : {serial, parallel, flow_graph}) {
    const std::string name = with.name;
    bench.add(name + "__pipe_hop_ns", "ns", no_bar, [with] { return hop_ns(with, 1); });
    bench.add(name + "__pipe_item_ns", "ns", no_bar, [with] { return item_ns(with); });
    bench.add(name + "__pipe_task_hop_2_ns", "ns", no_bar,
              [with] { return hop_ns(with, 2); });
    bench.add(name + "__pipe_work_2_us", "us", no_bar, [with] { return work_us(with); });
  }
}

}  // namespace weir::bench
#else
namespace weir::bench {
void add_tbb_rows(program&) {}
}  // namespace weir::bench
#endif
