// SPDX-License-Identifier: Apache-2.0
/// @file
/// Graphs whose tasks work for a while and detect that they run too early, and the search
/// for METG(50 %). @source{Task Bench}
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "passes.hpp"
#include "work.hpp"

namespace weir::bench {

/// The bodies of a graph's tasks. Each writes its number as a stamp into the cells that
/// it writes, and compares the stamps of the cells that it reads with those of their last
/// writers.
class stamped_graph {
 public:
  /// Cell i of the graph is `cells[i]`, which must outlive this object.
  stamped_graph(const std::vector<cell_task>& graph, std::span<stamped_cell> cells)
      : cells_(cells.data()) {
    std::vector<std::uint32_t> writer(cells.size(), 0);
    for (const cell_task& task : graph) {
      for (const cell_access& a : task) {
        const auto cell = static_cast<std::uint32_t>(a.cell);
        if (a.mode != runtime::access_mode::write) {
          reads_.push_back({cell, writer[cell]});
        }
        if (a.mode != runtime::access_mode::read) {
          writes_.push_back(cell);
          writer[cell] = static_cast<std::uint32_t>(tasks_.size()) + 1;
        }
      }
      tasks_.push_back({static_cast<std::uint32_t>(reads_.size()),
                        static_cast<std::uint32_t>(writes_.size())});
    }
  }
  [[nodiscard]] std::size_t size() const { return tasks_.size(); }
  void set_iterations(std::int64_t count) { iterations_ = count; }

  /// Does the work of one task. Returns false if a cell that it reads has a stamp other
  /// than that of its last writer.
  [[nodiscard]] bool run(std::size_t index) const {
    const ends first = index == 0 ? ends{} : tasks_[index - 1];
    const ends last = tasks_[index];
    for (std::uint32_t i = first.reads; i < last.reads; ++i) {
      const stamped_read& r = reads_[i];
      if (r.stamp != 0 && cells_[r.cell].stamp != r.stamp) {
        return false;
      }
    }
    if (iterations_ != 0) {
      work(iterations_);
    }
    for (std::uint32_t i = first.writes; i < last.writes; ++i) {
      cells_[writes_[i]] = {index + 1, static_cast<double>(index)};
    }
    return true;
  }

 private:
  struct stamped_read {
    std::uint32_t cell = 0;
    std::uint32_t stamp = 0;  ///< 0: any stamp is right
  };
  /// End of the reads and writes of a task; they begin where those of the task before
  /// end.
  struct ends {
    std::uint32_t reads = 0;
    std::uint32_t writes = 0;
  };

  stamped_cell* cells_;
  std::vector<stamped_read> reads_;
  std::vector<std::uint32_t> writes_;
  std::vector<ends> tasks_;
  std::int64_t iterations_ = 0;
};

/// Lengthens the work until half of the time is work, and interpolates between the last
/// two points. `granularity(iterations)` returns nanoseconds per task, times workers.
template <class Granularity>
double metg_ns(Granularity&& granularity) {
  constexpr int max_points = 14;
  const double unit = best_pace().work_ns;
  const double overhead = granularity(std::int64_t{0});
  auto iterations = std::max<std::int64_t>(2, std::llround(0.3 * overhead / unit));
  double last_ns = 0;
  double last_share = 0;
  for (int i = 0; i < max_points; ++i) {
    const double ns = granularity(iterations);
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
  return std::nan("");  // half of the time was never work
}

/// Graphs whose granularity is measured with two workers.
inline constexpr std::array granularity_graphs{
    "trivial_w8",  "stencil_w2", "stencil_w4",         "stencil_w8",   "fft_w16",
    "nearest_w16", "spread_w16", "random_nearest_w16", "cholesky_n28", "gemm_n16"};
/// Graphs whose granularity is measured with one worker.
inline constexpr std::array granularity_graphs_1{
    "trivial_w4",  "stencil_w1", "stencil_w2",         "stencil_w4",   "fft_w16",
    "nearest_w16", "spread_w16", "random_nearest_w16", "cholesky_n28", "gemm_n16"};

}  // namespace weir::bench
