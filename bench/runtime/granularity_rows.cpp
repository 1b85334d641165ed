// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about granularity: METG(50 %), the time per task and worker at which half of the
/// time is work. @source{Task Bench}
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

/// A graph of the engine whose tasks work and check their inputs.
class working_graph {
 public:
  working_graph(const std::string& name, unsigned workers)
      : engine_(make_engine(workers, 8192)),
        workers_(workers),
        bound_(*engine_, graph_named(name)),
        bodies_(bound_.tasks, bound_.cells) {}

  /// Returns the nanoseconds per task, times workers, of passes with this many iterations
  /// of work per task.
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
  /// Submits all tasks of the graph. A task that finds a wrong stamp fails, so a wrong
  /// order of the tasks ends the benchmark and cannot make it look fast.
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

/// Figures of peers in ns for some number of workers, measured on another machine: the
/// best peer that discovers dependencies, and a static graph of Taskflow. The rows
/// `ratio_metg_*` and `ratio_replay_metg_*` compare with peers that are measured in the
/// same run.
struct peers_of {
  const char* name;
  double discovering;
  double fixed;
};
constexpr std::array one_worker{peers_of{"trivial_w4", 281, 32},
                                peers_of{"stencil_w1", 589, 33},
                                peers_of{"stencil_w2", 748, 49},
                                peers_of{"stencil_w4", 817, 48},
                                peers_of{"fft_w16", 864, 63},
                                peers_of{"nearest_w16", 1071, 65},
                                peers_of{"random_nearest_w16", 777, 48},
                                peers_of{"spread_w16", 1147, 104},
                                peers_of{"cholesky_n28", 483, 59},
                                peers_of{"gemm_n16", 944, 34}};
constexpr std::array two_workers{peers_of{"trivial_w8", 511, 97},
                                 peers_of{"stencil_w2", 1685, 655},
                                 peers_of{"stencil_w4", 1525, 221},
                                 peers_of{"stencil_w8", 1351, 165},
                                 peers_of{"fft_w16", 1377, 189},
                                 peers_of{"nearest_w16", 1572, 199},
                                 peers_of{"random_nearest_w16", 1169, 147},
                                 peers_of{"spread_w16", 1827, 280},
                                 peers_of{"cholesky_n28", 966, 147},
                                 peers_of{"gemm_n16", 847, 96}};

}  // namespace

void add_granularity_rows(program& bench) {
  const auto add = [&](const peers_of& g, unsigned workers) {
    const std::string id = std::string(g.name) + "_" + std::to_string(workers) + "_ns";
    const auto row = [&](const std::string& kind, bool replays, std::optional<bar> limit,
                         double peer) {
      bench.add(kind + id, "ns", limit, [name = g.name, workers, replays, peer] {
        return measured::beside_record(engine_metg_ns(name, workers, replays), peer);
      });
    };
    row("metg_", false, id == "stencil_w8_2_ns" ? std::optional(at_most(700)) : no_bar,
        g.discovering);
    row("replay_metg_", true, no_bar, g.fixed);
  };
  for (const peers_of& g : one_worker) {
    add(g, 1);
  }
  for (const peers_of& g : two_workers) {
    add(g, 2);
  }
}

}  // namespace weir::bench
