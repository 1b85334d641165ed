// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about submission and about empty tasks through the whole engine.
#include <dirent.h>

#include <array>
#include <fstream>
#include <memory>

#include "graphs.hpp"
#include "rows.hpp"

namespace weir::bench {
namespace {

using namespace weir::runtime;

constexpr std::int64_t cell_bytes = 64;

constexpr auto nothing = [](const task_context&) {};

std::unique_ptr<engine> make_engine(unsigned workers, std::uint32_t window) {
  engine_options o;
  o.workers = workers;
  o.window = window;
  return or_throw(engine::create(o));
}

tensor cell_of(const storage& s, std::int64_t i) {
  const std::array<std::int64_t, 1> shape{cell_bytes};
  return or_throw(tensor::over(s, dtype::uint8, shape, i * cell_bytes));
}

/// Two reads of what earlier tasks write and one write, each tensor a storage of its own:
/// two edges per task.
double submit_distinct_ns() {
  constexpr std::size_t count = 2048;
  auto e = make_engine(1, 4096);
  std::vector<std::array<access, 3>> accesses(count);
  std::vector<tensor> tensors;
  for (std::size_t i = 0; i < count; ++i) {
    tensors.push_back(cell_of(or_throw(e->allocate(cell_bytes, "bench")), 0));
    accesses[i] = {reads(tensors[i < 1 ? i : i - 1]), reads(tensors[i < 2 ? i : i - 2]),
                   writes(tensors[i])};
  }
  double best = 1e30;
  for (int r = 0; r < 30; ++r) {
    best = std::min(best, thread_seconds_of([&] {
                      for (const auto& a : accesses) {
                        keep(*e->submit("empty", a, nothing));
                      }
                    }));
    or_throw(e->wait_all());
  }
  return best * 1e9 / static_cast<double>(count);
}

/// The same between 64 Ki live views of one tensor, which 1024 tasks have written: each
/// task reads the tile before and the tile after the one that it writes.
double submit_hot_ns() {
  constexpr std::size_t live = 65536;
  constexpr std::size_t per_task = 64;
  constexpr std::size_t count = 2048;
  auto e = make_engine(1, 4096);
  const storage s = or_throw(e->allocate(live * cell_bytes, "bench"));
  std::vector<access> fill;
  for (std::size_t i = 0; i < live; ++i) {
    fill.push_back(writes(cell_of(s, static_cast<std::int64_t>(i))));
  }
  std::vector<std::array<access, 3>> accesses;
  for (std::size_t i = 0; i < count; ++i) {
    const auto tile = [&](std::size_t k) {
      return cell_of(s, static_cast<std::int64_t>(k));
    };
    const std::size_t at = i * 31 % (live - 2);
    accesses.push_back({reads(tile(at)), reads(tile(at + 2)), writes(tile(at + 1))});
  }
  double best = 1e30;
  for (int r = 0; r < 20; ++r) {
    for (std::size_t i = 0; i < live; i += per_task) {
      keep(*e->submit("fill", std::span(fill).subspan(i, per_task), nothing));
    }
    best = std::min(best, thread_seconds_of([&] {
                      for (const auto& a : accesses) {
                        keep(*e->submit("empty", a, nothing));
                      }
                    }));
    or_throw(e->wait_all());
  }
  return best * 1e9 / static_cast<double>(count);
}

/// A graph bound to cells of one engine.
struct bound_graph {
  bound_graph(engine& e, const std::vector<cell_task>& tasks) {
    std::int64_t cells = 1;
    for (const cell_task& t : tasks) {
      for (const cell_access& a : t) {
        cells = std::max(cells, a.cell + 1);
      }
    }
    std::vector<footprint> prints;
    for (std::int64_t i = 0; i < cells; ++i) {
      prints.push_back(cell_of(or_throw(e.allocate(cell_bytes, "cells")), 0).bytes());
    }
    for (const cell_task& t : tasks) {
      begins.push_back(accesses.size());
      for (const cell_access& a : t) {
        accesses.push_back({prints[static_cast<std::size_t>(a.cell)], a.mode});
      }
    }
    begins.push_back(accesses.size());
  }
  void submit_to(engine& e) const {
    for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
      const std::span<const access> a(accesses.data() + begins[i],
                                      begins[i + 1] - begins[i]);
      keep(*e.submit("empty", a, nothing));
    }
  }
  [[nodiscard]] std::size_t size() const { return begins.size() - 1; }

  std::vector<access> accesses;
  std::vector<std::size_t> begins;
};

/// Nanoseconds that the threads of this process have waited for a processor.
double delay_ns() {
  double sum = 0;
  DIR* folder = ::opendir("/proc/self/task");
  if (folder == nullptr) {
    return 0;
  }
  while (const dirent* one = ::readdir(folder)) {
    std::ifstream stat(std::string("/proc/self/task/") + one->d_name + "/schedstat");
    double ran = 0;
    double waited = 0;
    if (stat >> ran >> waited) {
      sum += waited;
    }
  }
  ::closedir(folder);
  return sum;
}

/// Nanoseconds per task. One worker: processor time, best of all samples. More:
/// wall-clock time, median of samples in which no thread waited for a processor, else the
/// best of all.
double empty_ns(const std::string& name, unsigned workers) {
  auto e = make_engine(workers, 1024);
  const bound_graph graph(*e, graph_named(name));
  const auto pass = [&] {
    graph.submit_to(*e);
    or_throw(e->wait_all());
  };
  pass();
  const double once = min_seconds(3, pass);
  const int passes = std::clamp(static_cast<int>(3e-3 / once), 1, 1000);
  std::vector<double> clean;
  double best = 1e30;
  for (int attempt = 0; attempt < 72 && clean.size() < 9; ++attempt) {
    const double waited = delay_ns();
    const auto all_passes = [&] {
      for (int i = 0; i < passes; ++i) {
        pass();
      }
    };
    const double s =
        workers == 1 ? thread_seconds_of(all_passes) : seconds_of(all_passes);
    const double ns = s * 1e9 / static_cast<double>(graph.size()) / passes;
    best = std::min(best, ns);
    if (delay_ns() - waited <= std::max(20e3, s * 1e7)) {
      clean.push_back(ns);
    }
  }
  return workers > 1 && clean.size() >= 3 ? median(clean) : best;
}

/// Growth of the cost per task from 1e3 to 1e6 tasks, as a share of the former.
double cost_slope() {
  auto e = make_engine(1, 256);
  const bound_graph graph(*e, graph_named("stencil_w8"));
  const auto per_task = [&](int tasks, int repeats) {
    double best = 1e30;
    for (int r = 0; r < repeats; ++r) {
      best = std::min(best, thread_seconds_of([&] {
                        for (int done = 0; done < tasks;
                             done += static_cast<int>(graph.size())) {
                          graph.submit_to(*e);
                        }
                        or_throw(e->wait_all());
                      }));
    }
    const auto size = static_cast<int>(graph.size());
    return best / ((tasks + size - 1) / size * size);
  };
  const double few = per_task(1000, 200);
  return per_task(1'000'000, 5) / few - 1;
}

struct graph_row {
  const char* name;
  double best_peer;  ///< ns per empty task of the best peer that discovers dependencies,
                     ///< 2 workers
};
/// Measured on a machine of two cores; peers are not installed here.
constexpr std::array graph_rows{
    graph_row{"chain", 199},       graph_row{"indep", 97},
    graph_row{"indep_w", 205},     graph_row{"trivial_w8", 188},
    graph_row{"stencil_w2", 273},  graph_row{"stencil_w8", 266},
    graph_row{"stencil_w16", 277}, graph_row{"fft_w16", 267},
    graph_row{"nearest_w16", 349}, graph_row{"random_nearest_w16", 235},
    graph_row{"spread_w16", 335},  graph_row{"cholesky_n28", 395},
    graph_row{"gemm_n16", 413}};

}  // namespace

void add_engine_rows(program& bench) {
  bench.add("submit_distinct_ns", "ns", at_most(150),
            [] { return submit_distinct_ns(); });
  bench.add("submit_hot_ns", "ns", at_most(250), [] { return submit_hot_ns(); });
  bench.add("task_cost_slope", "share", at_most(0.1), [] { return cost_slope(); });
  for (const graph_row& row : graph_rows) {
    const std::string name = row.name;
    bench.add("empty_" + name + "_1_ns", "ns", at_most(120),
              [name] { return empty_ns(name, 1); });
    bench.add("empty_" + name + "_2_ns", "ns", at_most(0.8 * row.best_peer),
              [name, peer = row.best_peer] { return measured(empty_ns(name, 2), peer); });
  }
  bench.add("empty_tasks_per_s", "1/s", at_least(6.6e6),
            [] { return 1e9 / empty_ns("trivial_w8", 2); });
}

}  // namespace weir::bench
