// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about granularity: METG(50 %), the time per task and worker at which half of it
/// is work. @source{Task Bench}
#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include "passes.hpp"
#include "rows.hpp"

namespace weir::bench {
namespace {

using namespace weir::runtime;

/// One iteration: 16 independent additions and multiplications of four doubles.
double work(std::int64_t iterations, double seed) {
  std::array<double, 64> lanes{};
  lanes.fill(seed);
  for (std::int64_t i = 0; i < iterations; ++i) {
    for (double& lane : lanes) {
      lane = lane * 0.999999 + 1e-6;
    }
  }
  double sum = 0;
  for (const double lane : lanes) {
    sum += lane;
  }
  return sum;
}

/// Nanoseconds of one iteration: the best of many.
double iteration_ns() {
  constexpr std::int64_t count = 20'000;
  double best = 1e30;
  for (int i = 0; i < 200; ++i) {
    best = std::min(best, seconds_of([] { keep(work(count, 1)); }));
  }
  return best * 1e9 / count;
}

struct cell {
  std::uint64_t stamp;  ///< of the last writer
  double column;
};
/// What a task needs to know of its cells.
struct stamped_read {
  const cell* from;
  std::uint64_t stamp;  ///< 0: whatever it is
};
struct stamped_task {
  std::vector<stamped_read> reads;
  std::vector<cell*> writes;
};

/// A graph whose tasks work for a while and notice when they run too early.
class working_graph {
 public:
  working_graph(const std::string& name, unsigned workers)
      : engine_(make_engine(workers, 8192)),
        workers_(workers),
        source_(graph_named(name)),
        bound_(*engine_, source_) {
    std::vector<std::uint64_t> writer(bound_.stores.size(), 0);
    for (std::size_t i = 0; i < source_.size(); ++i) {
      stamped_task t;
      for (const cell_access& a : source_[i]) {
        const auto index = static_cast<std::size_t>(a.cell);
        auto* at = reinterpret_cast<cell*>(bound_.stores[index].base);
        if (a.mode != access_mode::write) {
          t.reads.push_back({at, writer[index]});
        }
        if (a.mode != access_mode::read) {
          t.writes.push_back(at);
          writer[index] = i + 1;
        }
      }
      tasks_.push_back(std::move(t));
    }
  }

  /// Nanoseconds per task, times workers, of passes with so many iterations per task.
  double granularity_ns(std::int64_t iterations, bool replays) {
    iterations_ = iterations;
    if (replays && !captured_.valid()) {
      or_throw(engine_->begin_capture());
      submit();
      captured_ = or_throw(engine_->end_capture());
      or_throw(engine_->wait_all());
    }
    const double ns = pass_ns(workers_, tasks_.size(), [&] {
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
      return [this, i](const task_context&) -> result<void> { return run(i); };
    });
  }
  result<void> run(std::size_t index) {
    const stamped_task& t = tasks_[index];
    for (const stamped_read& r : t.reads) {
      if (r.stamp != 0 && r.from->stamp != r.stamp) {
        return error(errc::corrupt,
                     "task ran at the wrong time: expected the stamp of the last writer, "
                     "found another");
      }
    }
    const double column = work(iterations_, 1);
    for (cell* to : t.writes) {
      to->stamp = index + 1;
      to->column = column;
    }
    return {};
  }

  std::unique_ptr<engine> engine_;
  unsigned workers_;
  std::vector<cell_task> source_;
  bound_graph bound_;
  std::vector<stamped_task> tasks_;
  std::int64_t iterations_ = 0;
  capture captured_;
};

/// Lengthens the work until half of the time is work; interpolates between the last two.
double metg_ns(const std::string& name, unsigned workers, bool replays) {
  constexpr int most_points = 14;
  const double unit = iteration_ns();
  working_graph graph(name, workers);
  const double overhead = graph.granularity_ns(0, replays);
  auto iterations = std::max<std::int64_t>(2, std::llround(0.3 * overhead / unit));
  double last_ns = 0;
  double last_share = 0;
  for (int i = 0; i < most_points; ++i) {
    const double ns = graph.granularity_ns(iterations, replays);
    const double share = static_cast<double>(iterations) * unit / ns;
    if (share >= 0.5) {
      if (last_share == 0) {
        return ns;
      }
      const double t = std::log(0.5 / last_share) / std::log(share / last_share);
      return std::exp(std::log(last_ns) + t * std::log(ns / last_ns));
    }
    last_ns = ns;
    last_share = share;
    iterations += std::max<std::int64_t>(1, iterations / 2);
  }
  return std::nan("");  // never half busy
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
              [name] { return metg_ns(name, 1, false); });
    bench.add(
        "metg_" + name + "_2_ns", "ns", at_most(g.discovering),
        [name, peer = g.best_peer] { return measured(metg_ns(name, 2, false), peer); });
    bench.add("metg_replay_" + name + "_2_ns", "ns", at_most(g.fixed),
              [name, peer = g.fixed] { return measured(metg_ns(name, 2, true), peer); });
  }
}

}  // namespace weir::bench
