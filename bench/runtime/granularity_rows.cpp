// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about granularity: METG(50 %), the time per task and worker at which half of it
/// is work. @source{Task Bench}
#include <array>
#include <memory>
#include <vector>

#include "rows.hpp"
#include "stamped_graph.hpp"

namespace weir::bench {
namespace {

using namespace weir::runtime;

std::vector<stamped_cell*> cells_in(const bound_graph& graph) {
  std::vector<stamped_cell*> out;
  for (const storage& s : graph.stores) {
    out.push_back(new (s.base) stamped_cell);
  }
  return out;
}

class working_graph {
 public:
  working_graph(const std::string& name, unsigned workers)
      : engine_(make_engine(workers, 8192)),
        workers_(workers),
        bound_(*engine_, graph_named(name)),
        bodies_(bound_.tasks, cells_in(bound_)) {}

  /// Nanoseconds per task, times workers, of passes with so many iterations per task.
  double granularity_ns(std::int64_t iterations, bool replays) {
    bodies_.set_iterations(iterations);
    if (replays && !captured_.valid()) {
      or_throw(engine_->begin_capture());
      submit();
      captured_ = or_throw(engine_->end_capture());
      or_throw(engine_->wait_all());
    }
    const double ns = pass_ns(workers_, bodies_.size(), [&] {
      if (replays) {
        keep(*engine_->replay(captured_));
      } else {
        submit();
      }
      or_throw(engine_->wait_all());
    });
    return ns * workers_;
  }

 private:
  void submit() {
    bound_.submit_to(*engine_, [this](std::size_t i) {
      return [this, i](const task_context&) -> result<void> {
        if (!bodies_.run(i)) {
          return error(errc::corrupt,
                       "task ran at the wrong time: expected the stamp of the last "
                       "writer, found another");
        }
        return {};
      };
    });
  }

  std::unique_ptr<engine> engine_;
  unsigned workers_;
  bound_graph bound_;
  stamped_graph bodies_;
  capture captured_;
};

double engine_metg_ns(const std::string& name, unsigned workers, bool replays) {
  working_graph graph(name, workers);
  return metg_ns(
      [&](std::int64_t iterations) { return graph.granularity_ns(iterations, replays); });
}

/// Goals on two workers, ns: 0.6 of the best peer that discovers dependencies, and a
/// static graph of Taskflow.
struct goal {
  const char* name;
  double discovering;
  double best_peer;
  double fixed;
};
constexpr std::array goals{goal{"trivial_w8", 307, 511, 97},
                           goal{"stencil_w2", 1011, 1685, 655},
                           goal{"stencil_w4", 915, 1525, 221},
                           goal{"stencil_w8", 700, 1351, 165},
                           goal{"fft_w16", 826, 1377, 189},
                           goal{"nearest_w16", 943, 1572, 199},
                           goal{"random_nearest_w16", 702, 1169, 147},
                           goal{"spread_w16", 1096, 1827, 280},
                           goal{"cholesky_n28", 580, 966, 147},
                           goal{"gemm_n16", 508, 847, 96}};

}  // namespace

void add_granularity_rows(program& bench) {
  for (const goal& g : goals) {
    const std::string name = g.name;
    bench.add("metg_" + name + "_1_ns", "ns", no_bar,
              [name] { return engine_metg_ns(name, 1, false); });
    bench.add("metg_" + name + "_2_ns", "ns", at_most(g.discovering),
              [name, peer = g.best_peer] {
                return measured(engine_metg_ns(name, 2, false), peer);
              });
    bench.add(
        "metg_replay_" + name + "_2_ns", "ns", at_most(g.fixed),
        [name, peer = g.fixed] { return measured(engine_metg_ns(name, 2, true), peer); });
  }
}

}  // namespace weir::bench
