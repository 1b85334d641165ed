// SPDX-License-Identifier: Apache-2.0
/// @file
/// The same graphs with StarPU: a handle per cell, and dependencies from the order of
/// submission. Empty if the library is not installed.
#include "rows.hpp"

#if defined(WEIR_BENCH_STARPU)
#include <starpu.h>

#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "passes.hpp"

namespace weir::bench {
namespace {

/// A runtime with its workers, which poll as long as this object lives.
class starpu_graph {
 public:
  starpu_graph(const std::string& name, unsigned workers) : tasks_(graph_named(name)) {
    ::setenv("STARPU_SILENT", "1", 0);
    ::setenv("STARPU_CALIBRATE", "0", 0);
    starpu_conf with;
    // Only processors are used, with the scheduler that steals from neighbours. The
    // environment is left alone where the user has set it.
    starpu_conf_init(&with);
    with.ncpus = static_cast<int>(workers);
    with.ncuda = 0;
    with.nopencl = 0;
    with.sched_policy_name = "lws";
    if (starpu_init(&with) != 0) {
      throw std::runtime_error("StarPU does not start");
    }
    starpu_codelet_init(&empty_);
    empty_.cpu_funcs[0] = [](void**, void*) {};
    empty_.cpu_funcs_name[0] = "empty";
    empty_.nbuffers = STARPU_VARIABLE_NBUFFERS;
    std::size_t cells = 1;
    for (const cell_task& t : tasks_) {
      for (const cell_access& a : t) {
        cells = std::max(cells, static_cast<std::size_t>(a.cell) + 1);
      }
    }
    memory_.resize(cells * cell_bytes);
    handles_.resize(cells);
    for (std::size_t i = 0; i < cells; ++i) {
      starpu_variable_data_register(
          &handles_[i], STARPU_MAIN_RAM,
          reinterpret_cast<std::uintptr_t>(&memory_[i * cell_bytes]), cell_bytes);
    }
  }
  ~starpu_graph() {
    for (starpu_data_handle_t handle : handles_) {
      starpu_data_unregister_no_coherency(handle);
    }
    starpu_shutdown();
  }
  starpu_graph(const starpu_graph&) = delete;
  starpu_graph& operator=(const starpu_graph&) = delete;

  [[nodiscard]] std::size_t size() const { return tasks_.size(); }
  /// Submits all tasks and waits for them. StarPU finds the dependencies from the
  /// handles, in the order of submission.
  void pass() {
    for (const cell_task& t : tasks_) {
      starpu_task* task = starpu_task_create();
      task->cl = &empty_;
      task->nbuffers = static_cast<int>(t.size());
      for (std::size_t i = 0; i < t.size(); ++i) {
        task->handles[i] = handles_[static_cast<std::size_t>(t[i].cell)];
        task->modes[i] = t[i].mode == runtime::access_mode::read    ? STARPU_R
                         : t[i].mode == runtime::access_mode::write ? STARPU_W
                                                                    : STARPU_RW;
      }
      if (starpu_task_submit(task) != 0) {
        throw std::runtime_error("StarPU refuses a task");
      }
    }
    starpu_task_wait_for_all();
  }

 private:
  std::vector<cell_task> tasks_;
  starpu_codelet empty_{};
  std::vector<char> memory_;
  std::vector<starpu_data_handle_t> handles_;
};

}  // namespace

void add_starpu_rows(program& bench) {
  for (const graph_row& row : graph_rows) {
    const std::string name = row.name;
    for (const unsigned workers : {1U, 2U}) {
      bench.add("starpu_" + name + "_" + std::to_string(workers) + "_ns", "ns", no_bar,
                [name, workers] {
                  wait_until_clean(2);
                  starpu_graph graph(name, workers);
                  // Its workers are threads beside the submitter and always poll.
                  return pass_ns(0, graph.size(), [&] { graph.pass(); });
                });
    }
  }
}

}  // namespace weir::bench
#else
namespace weir::bench {
void add_starpu_rows(program&) {}
}  // namespace weir::bench
#endif
