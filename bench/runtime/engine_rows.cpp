// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about submission, and about empty tasks that pass through the whole engine.
#include <array>
#include <memory>

#include "passes.hpp"
#include "rows.hpp"

namespace weir::bench {
namespace {

using namespace weir::runtime;

/// Each task reads what two earlier tasks write, and writes one tensor. Each tensor is a
/// storage of its own, and each task gets two edges.
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
  const double seconds = quiet_median(1, 30, [&] {
    const double took = thread_seconds_of([&] {
      for (const auto& a : accesses) {
        keep(*e->submit("empty", a, nothing));
      }
    });
    or_throw(e->wait_all());
    return took;
  });
  return seconds * 1e9 / static_cast<double>(count);
}

/// Submits between 64 Ki live views of one tensor, which 1024 tasks have written: each
/// task reads the tile before and the tile after the one that it writes. Its accesses are
/// put together just before the submission, as a program does.
double submit_hot_ns() {
  constexpr std::size_t live = 65536;
  constexpr std::size_t per_task = 64;
  constexpr std::size_t count = 2048;
  auto e = make_engine(1, 4096, 131072);
  const storage s = or_throw(e->allocate(live * cell_bytes, "bench"));
  const tensor tile = cell_of(s, 0);
  std::vector<access> fill(per_task, writes(tile));
  std::array<access, 3> accesses{reads(tile), reads(tile), writes(tile)};
  const auto move_to = [](access& a, std::size_t k) {
    a.bytes.lo = static_cast<std::int64_t>(k) * cell_bytes;
    a.bytes.hi = a.bytes.lo + cell_bytes;
  };
  const double seconds = quiet_median(1, 20, [&] {
    for (std::size_t i = 0; i < live; i += per_task) {
      for (std::size_t k = 0; k < per_task; ++k) {
        move_to(fill[k], i + k);
      }
      keep(*e->submit("fill", fill, nothing));
    }
    const double took = thread_seconds_of([&] {
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t first = i * 31 % (live - 2);
        move_to(accesses[0], first);
        move_to(accesses[1], first + 2);
        move_to(accesses[2], first + 1);
        keep(*e->submit("empty", accesses, nothing));
      }
    });
    or_throw(e->wait_all());
    return took;
  });
  return seconds * 1e9 / static_cast<double>(count);
}

/// Returns the growth of the cost per task from 10^3 to 10^6 tasks, as a share of the
/// former. Samples of both take turns, so that a busy neighbour slows both.
double cost_slope() {
  auto e = make_engine(1, 256);
  const bound_graph graph(*e, graph_named("stencil_w8"));
  const auto per_task = [&](int passes) {
    const double s = thread_seconds_of([&] {
      for (int i = 0; i < passes; ++i) {
        graph.submit_to(*e);
      }
      or_throw(e->wait_all());
    });
    return s / passes / static_cast<double>(graph.size());
  };
  std::vector<double> few;
  std::vector<double> many;
  for (int r = 0; r < 7; ++r) {
    for (int i = 0; i < 200; ++i) {
      few.push_back(per_task(1));
    }
    many.push_back(per_task(245));  // about a million tasks
  }
  return median(many) / median(few) - 1;
}

/// Returns the cost of empty tasks of a graph that are submitted one by one.
double empty_ns(const std::string& name, unsigned workers) {
  // With one worker, a small window keeps the records in the near caches. Two workers
  // need a larger one to work apart.
  auto e = make_engine(workers, workers == 1 ? 256 : 1024);
  const bound_graph graph(*e, graph_named(name));
  return pass_ns(workers, graph.size(), [&] {
    graph.submit_to(*e);
    or_throw(e->wait_all());
  });
}

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
    // The limit of this row is that of `ratio_empty_*`.
    bench.add("empty_" + name + "_2_ns", "ns", no_bar, [name, peer = row.best_peer] {
      return measured::beside_record(empty_ns(name, 2), peer);
    });
  }
  for (const graph_row& row : one_worker_rows) {
    bench.add(std::string("empty_") + row.name + "_1_ns", "ns", at_most(120),
              [row] { return empty_ns(row.name, 1); });
  }
  bench.add("empty_tasks_per_s", "1/s", at_least(6.6e6),
            [] { return 1e9 / empty_ns("trivial_w8", 2); });
}

}  // namespace weir::bench
