// SPDX-License-Identifier: Apache-2.0
/// @file
/// The same graphs as static graphs of oneTBB, with a node per task and edges that are
/// made in advance, for comparison with replays. Empty if the library is not installed.
#include "rows.hpp"

#if defined(WEIR_BENCH_TBB)
#include <tbb/flow_graph.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "passes.hpp"

namespace weir::bench {
namespace {

using flow_node = tbb::flow::continue_node<tbb::flow::continue_msg>;

/// Returns for each task of a graph its predecessors, each once.
std::vector<std::vector<std::size_t>> predecessors_in(
    const std::vector<cell_task>& graph) {
  struct users {
    std::size_t writer = SIZE_MAX;
    std::vector<std::size_t> readers;
  };
  std::vector<users> cells;
  std::vector<std::vector<std::size_t>> out(graph.size());
  for (std::size_t i = 0; i < graph.size(); ++i) {
    for (const cell_access& a : graph[i]) {
      const auto index = static_cast<std::size_t>(a.cell);
      cells.resize(std::max(cells.size(), index + 1));
      // A reader waits for the writer before it. A writer waits for that writer too, and
      // for all readers since.
      users& cell = cells[index];
      if (cell.writer != SIZE_MAX) {
        out[i].push_back(cell.writer);
      }
      if (a.mode == runtime::access_mode::read) {
        cell.readers.push_back(i);
      } else {
        out[i].insert(out[i].end(), cell.readers.begin(), cell.readers.end());
        cell = {i, {}};
      }
    }
    std::sort(out[i].begin(), out[i].end());
    out[i].erase(std::unique(out[i].begin(), out[i].end()), out[i].end());
    std::erase(out[i], i);
  }
  return out;
}

/// A graph of TBB, whose edges are made once, before the measurement. A pass therefore
/// does not include the discovery of dependencies.
class flow_graph {
 public:
  flow_graph(const std::string& name, unsigned workers)
      : arena_(static_cast<int>(workers)) {
    const auto before = predecessors_in(graph_named(name));
    arena_.execute([&] {
      graph_ = std::make_unique<tbb::flow::graph>();
      for (std::size_t i = 0; i < before.size(); ++i) {
        nodes_.emplace_back(*graph_, [](const tbb::flow::continue_msg&) {});
        for (const std::size_t k : before[i]) {
          tbb::flow::make_edge(nodes_[k], nodes_[i]);
        }
        if (before[i].empty()) {
          roots_.push_back(&nodes_[i]);
        }
      }
    });
  }
  [[nodiscard]] std::size_t size() const { return nodes_.size(); }
  /// Lets the roots start, and waits for all tasks. Both happen inside the arena, so only
  /// its threads run tasks.
  void pass() {
    arena_.execute([&] {
      for (flow_node* root : roots_) {
        root->try_put(tbb::flow::continue_msg());
      }
      graph_->wait_for_all();
    });
  }

 private:
  tbb::task_arena arena_;
  std::unique_ptr<tbb::flow::graph> graph_;
  std::deque<flow_node> nodes_;
  std::vector<flow_node*> roots_;
};

}  // namespace

void add_tbb_rows(program& bench) {
  for (const graph_row& row : graph_rows) {
    const std::string name = row.name;
    for (const unsigned workers : {1U, 2U}) {
      bench.add("tbb_flow_" + name + "_" + std::to_string(workers) + "_ns", "ns", no_bar,
                [name, workers] {
                  flow_graph graph(name, workers);
                  return pass_ns(workers, graph.size(), [&] { graph.pass(); });
                });
    }
  }
}

}  // namespace weir::bench
#else
namespace weir::bench {
void add_tbb_rows(program&) {}
}  // namespace weir::bench
#endif
