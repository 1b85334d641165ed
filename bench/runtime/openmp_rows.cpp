// SPDX-License-Identifier: Apache-2.0
/// @file
/// The same graphs with OpenMP's `depend`, if the compiler has it: empty tasks and
/// METG(50 %).
#include <array>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "rows.hpp"
#include "stamped_graph.hpp"

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace weir::bench {

#if defined(_OPENMP)
namespace {

/// Runs both functions on threads of a team, which poll between parallel regions.
struct team {
  template <class First, class Second>
  void operator()(const First& first, const Second& second) const {
    bool two = false;
#pragma omp parallel num_threads(2)
    {
      if (omp_get_thread_num() == 1) {
        second();
      } else if (omp_get_num_threads() == 2) {
        two = true;
        first();
      }
    }
    if (!two) {  // the environment limits the threads of OpenMP
      thread_pair()(first, second);
    }
  }
};

/// Addresses of the cells that a task accesses. No graph has more reads than this.
struct addresses {
  std::array<stamped_cell*, 5> reads{};
  std::size_t count = 0;  ///< number of reads
  stamped_cell* write = nullptr;
};

/// A graph of cells, submitted through OpenMP.
class openmp_graph {
 public:
  explicit openmp_graph(const std::string& name)
      : cells_(8192), bodies_(graph_named(name), cells_) {
    for (const cell_task& t : graph_named(name)) {
      addresses one;
      for (const cell_access& a : t) {
        stamped_cell* cell = &cells_[static_cast<std::size_t>(a.cell)];
        (a.mode == runtime::access_mode::read ? one.reads.at(one.count++) : one.write) =
            cell;
      }
      tasks_.push_back(one);
    }
  }
  [[nodiscard]] std::size_t size() const { return tasks_.size(); }

  /// Runs all tasks empty: one thread submits, and all threads run tasks.
  void pass(int workers) const {
    submit_all(workers, [](std::size_t) {});
  }
  double granularity_ns(std::int64_t iterations, unsigned workers) {
    bodies_.set_iterations(iterations);
    const auto body = [this](std::size_t i) {
      if (!bodies_.run(i)) {
        too_early_.store(true, std::memory_order_relaxed);
      }
    };
    const double ns = pass_ns(
        workers, size(), [&] { submit_all(static_cast<int>(workers), body); }, team());
    if (too_early_.load()) {
      throw std::runtime_error("a task of OpenMP ran at the wrong time");
    }
    return ns * workers;
  }

 private:
  template <class Body>
  void submit_all(int workers, const Body& body) const {
#pragma omp parallel num_threads(workers)
#pragma omp single
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      submit(tasks_[i], i, body);
    }
  }
  /// The clauses are written out for each number of reads: `depend(iterator(...))` makes
  /// an array for every task, which costs clang's runtime a tenth of its speed.
  template <class Body>
  static void submit(const addresses& t, std::size_t index, const Body& body) {
    const Body* const run = &body;
    stamped_cell* const w = t.write;
    const auto [r0, r1, r2, r3, r4] = t.reads;
    if (w == nullptr) {
#pragma omp task firstprivate(run, index)
      { (*run)(index); }
      return;
    }
    switch (t.count) {
      case 0:
#pragma omp task firstprivate(run, index) depend(inout : *w)
      {
        (*run)(index);
      } break;
      case 1:
#pragma omp task firstprivate(run, index) depend(in : *r0) depend(inout : *w)
      {
        (*run)(index);
      } break;
      case 2:
#pragma omp task firstprivate(run, index) depend(in : *r0, *r1) depend(inout : *w)
      {
        (*run)(index);
      } break;
      case 3:
#pragma omp task firstprivate(run, index) depend(in : *r0, *r1, *r2) depend(inout : *w)
      {
        (*run)(index);
      } break;
      case 4:
#pragma omp task firstprivate(run, index) depend(in                                 \
                                                 : *r0, *r1, *r2, *r3) depend(inout \
                                                                              : *w)
      {
        (*run)(index);
      } break;
      default:
#pragma omp task firstprivate(run, index) depend(in                                      \
                                                 : *r0, *r1, *r2, *r3, *r4) depend(inout \
                                                                                   : *w)
      {
        (*run)(index);
      }
    }
  }

  std::vector<stamped_cell> cells_;
  stamped_graph bodies_;
  std::vector<addresses> tasks_;
  std::atomic<bool> too_early_{false};
};

}  // namespace

void add_openmp_rows(program& bench, const std::string& prefix) {
  const auto add_empty = [&](const std::string& name, unsigned workers) {
    bench.add(prefix + "_" + name + "_" + std::to_string(workers) + "_ns", "ns", no_bar,
              [name, workers] {
                const openmp_graph graph(name);
                return pass_ns(
                    workers, graph.size(), [&] { graph.pass(static_cast<int>(workers)); },
                    team());
              });
  };
  for (const graph_row& row : graph_rows) {
    add_empty(row.name, 1);
    add_empty(row.name, 2);
  }
  const auto add_metg = [&](const std::string& name, unsigned workers) {
    bench.add(prefix + "_metg_" + name + "_" + std::to_string(workers) + "_ns", "ns",
              no_bar, [name, workers] {
                openmp_graph graph(name);
                return metg_ns([&](std::int64_t n) {
                  return graph.granularity_ns(n, static_cast<int>(workers));
                });
              });
  };
  for (const char* name : granularity_graphs) {
    add_metg(name, 2);
  }
  if (prefix == "libomp") {  // the reference; one worker of g++'s runtime takes minutes
    for (const graph_row& row : one_worker_rows) {
      add_empty(row.name, 1);
    }
    for (const char* name : granularity_graphs_1) {
      add_metg(name, 1);
    }
  }
}
#else
void add_openmp_rows(program&, const std::string&) {}
#endif

}  // namespace weir::bench
