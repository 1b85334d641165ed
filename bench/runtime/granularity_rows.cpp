// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about granularity: METG(50 %), the time per task and worker at which half of it
/// is work. @source{Task Bench}
#include <array>
#include <memory>
#include <optional>
#include <string>
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

/// On so many workers, ns: the goal, 0.6 of the best peer that discovers dependencies,
/// that peer, and a static graph of Taskflow, which `ratio_replay_metg_*` compares with.
struct goal {
  const char* name;
  double discovering;
  double best_peer;
  double fixed;
};
constexpr std::array one_worker{goal{"trivial_w4", 0, 281, 32},
                                goal{"stencil_w1", 0, 589, 33},
                                goal{"stencil_w2", 0, 748, 49},
                                goal{"stencil_w4", 0, 817, 48},
                                goal{"fft_w16", 0, 864, 63},
                                goal{"nearest_w16", 0, 1071, 65},
                                goal{"random_nearest_w16", 0, 777, 48},
                                goal{"spread_w16", 0, 1147, 104},
                                goal{"cholesky_n28", 0, 483, 59},
                                goal{"gemm_n16", 0, 944, 34}};
constexpr std::array two_workers{goal{"trivial_w8", 307, 511, 97},
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
  const auto add = [&](const goal& g, unsigned workers) {
    const std::string id = std::string(g.name) + "_" + std::to_string(workers) + "_ns";
    const auto row = [&](const std::string& kind, bool replays, std::optional<bar> most,
                         double peer) {
      bench.add(kind + id, "ns", most, [name = g.name, workers, replays, peer] {
        return measured(engine_metg_ns(name, workers, replays), peer);
      });
    };
    row("metg_", false,
        g.discovering == 0 ? no_bar : std::optional(at_most(g.discovering)), g.best_peer);
    row("replay_metg_", true, no_bar, g.fixed);
  };
  for (const goal& g : one_worker) {
    add(g, 1);
  }
  for (const goal& g : two_workers) {
    add(g, 2);
  }
}

}  // namespace weir::bench
