// SPDX-License-Identifier: Apache-2.0
/// @file
/// The same graphs of empty tasks through OpenMP's `depend`, where the compiler has it.
#include <memory>
#include <string>
#include <vector>

#include "passes.hpp"
#include "rows.hpp"

namespace weir::bench {

#if defined(_OPENMP)
namespace {

struct alignas(64) padded_cell {
  char byte = 0;
};
struct addresses {
  std::vector<padded_cell*> reads;
  std::vector<padded_cell*> writes;
};

class openmp_graph {
 public:
  explicit openmp_graph(const std::string& name) : cells_(8192) {
    for (const cell_task& t : graph_named(name)) {
      addresses one;
      for (const cell_access& a : t) {
        padded_cell* at = &cells_[static_cast<std::size_t>(a.cell)];
        (a.mode == runtime::access_mode::read ? one.reads : one.writes).push_back(at);
      }
      tasks_.push_back(std::move(one));
    }
  }
  [[nodiscard]] std::size_t size() const { return tasks_.size(); }

  /// One thread submits, all run.
  void pass(int workers) const {
#pragma omp parallel num_threads(workers)
#pragma omp single
    for (const addresses& t : tasks_) {
      submit(t);
    }
  }

 private:
  static void submit(const addresses& t) {
    padded_cell* const* r = t.reads.data();
    padded_cell* const* w = t.writes.data();
    const auto reads = static_cast<int>(t.reads.size());
    const auto writes = static_cast<int>(t.writes.size());
    if (reads == 0 && writes == 0) {
#pragma omp task
      {}
    } else if (reads == 0) {
#pragma omp task depend(iterator(int i = 0 : writes), inout : *w[i])
      {}
    } else {
#pragma omp task depend(iterator(int i = 0                  \
                                 : reads),                  \
                        in                                  \
                        : *r[i]) depend(iterator(int k = 0  \
                                                 : writes), \
                                        inout               \
                                        : *w[k])
      {}
    }
  }

  std::vector<padded_cell> cells_;
  std::vector<addresses> tasks_;
};

double openmp_ns(const std::string& name, unsigned workers) {
  const openmp_graph graph(name);
  return pass_ns(workers, graph.size(), [&] { graph.pass(static_cast<int>(workers)); });
}

}  // namespace

void add_openmp_rows(program& bench) {
  for (const graph_row& row : graph_rows) {
    const std::string name = row.name;
    for (const unsigned workers : {1U, 2U}) {
      bench.add("openmp_" + name + "_" + std::to_string(workers) + "_ns", "ns", no_bar,
                [name, workers] { return openmp_ns(name, workers); });
    }
  }
}
#else
void add_openmp_rows(program&) {}
#endif

}  // namespace weir::bench
