// SPDX-License-Identifier: Apache-2.0
/// @file
/// Passes over a graph of empty tasks, and the cost of one task.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench.hpp"
#include "clean.hpp"
#include "graphs.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::bench {

inline constexpr std::int64_t cell_bytes = sizeof(stamped_cell);

inline constexpr auto nothing = [](const runtime::task_context&) {};

inline std::unique_ptr<runtime::engine> make_engine(unsigned workers,
                                                    std::uint32_t window,
                                                    std::uint32_t accesses = 0) {
  runtime::engine_options o;
  o.workers = workers;
  o.window = window;
  o.accesses = accesses;
  o.kernel_time = false;  // the peers do not measure it either
  return or_throw(runtime::engine::create(o));
}

inline runtime::tensor cell_of(const runtime::storage& s, std::int64_t i) {
  const std::array<std::int64_t, 1> shape{cell_bytes};
  return or_throw(runtime::tensor::over(s, dtype::uint8, shape, i * cell_bytes));
}

/// A graph bound to cells of one engine, each of which is a storage. The cells lie side
/// by side in memory, as those of the peers do.
struct bound_graph {
  bound_graph(runtime::engine& e, std::vector<cell_task> graph)
      : tasks(std::move(graph)) {
    std::int64_t last = 0;
    for (const cell_task& t : tasks) {
      for (const cell_access& a : t) {
        last = std::max(last, a.cell);
      }
    }
    cells.resize(static_cast<std::size_t>(last) + 1);
    for (stamped_cell& c : cells) {
      const runtime::storage s =
          e.adopt(reinterpret_cast<std::byte*>(&c), cell_bytes, "cells");
      prints.push_back(cell_of(s, 0).bytes());
    }
  }
  void submit_to(runtime::engine& e) const {
    submit_to(e, [](std::size_t) { return nothing; });
  }
  /// Submits all tasks; task i runs `kernel_of(i)`. Accesses are put together from
  /// existing footprints, as a program does.
  template <class KernelOf>
  void submit_to(runtime::engine& e, KernelOf&& kernel_of) const {
    std::array<runtime::access, 8> accesses;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      std::size_t count = 0;
      for (const cell_access& a : tasks[i]) {
        accesses[count].bytes = prints[static_cast<std::size_t>(a.cell)];
        accesses[count++].mode = a.mode;
      }
      keep(*e.submit("task", std::span(accesses).first(count), kernel_of(i)));
    }
  }
  [[nodiscard]] std::size_t size() const { return tasks.size(); }

  std::vector<cell_task> tasks;
  std::vector<stamped_cell> cells;
  std::vector<runtime::footprint> prints;  ///< by cell
};

/// Returns the nanoseconds per task of passes over a graph, the median of quiet samples:
/// processor time with one worker, wall-clock time with more. With 0 workers all samples
/// count, because the threads of that runtime never stop polling and so hide what else is
/// running.
template <class Pass, class Pair = thread_pair>
double pass_ns(unsigned workers, std::size_t tasks, Pass&& pass, const Pair& both = {}) {
  pass();
  const double once = min_seconds(3, pass);
  const int passes = std::clamp(static_cast<int>(3e-3 / once), 1, 1000);
  const auto sample = [&] {
    const auto all_passes = [&] {
      for (int i = 0; i < passes; ++i) {
        pass();
      }
    };
    return workers == 1 ? thread_seconds_of(all_passes) : seconds_of(all_passes);
  };
  return median(clean_samples(workers, 9, sample, both)) * 1e9 /
         static_cast<double>(tasks) / passes;
}

/// A graph, and the cost of an empty task of it with peers, in ns, measured on another
/// machine with two cores; 0 if it was not measured.
struct graph_row {
  const char* name;
  double best_peer;  ///< best peer that discovers dependencies, 2 workers
  double static_1;   ///< a static graph of Taskflow, 1 worker
  double static_2;   ///< 2 workers
};
inline constexpr std::array graph_rows{
    graph_row{"chain", 199, 23, 25},       graph_row{"indep", 97, 30, 61},
    graph_row{"indep_w", 205, 30, 62},     graph_row{"trivial_w8", 188, 0, 24},
    graph_row{"stencil_w2", 273, 0, 44},   graph_row{"stencil_w8", 266, 0, 49},
    graph_row{"stencil_w16", 277, 35, 45}, graph_row{"fft_w16", 267, 46, 72},
    graph_row{"nearest_w16", 349, 46, 66}, graph_row{"random_nearest_w16", 235, 35, 51},
    graph_row{"spread_w16", 335, 69, 126}, graph_row{"cholesky_n28", 395, 43, 56},
    graph_row{"gemm_n16", 413, 23, 27}};
/// Graphs with four tasks per worker, or one, which are meant for a single worker.
inline constexpr std::array one_worker_rows{graph_row{"trivial_w4", 0, 23, 0},
                                            graph_row{"stencil_w1", 0, 23, 0},
                                            graph_row{"stencil_w4", 0, 36, 0}};

}  // namespace weir::bench
