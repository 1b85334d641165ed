// SPDX-License-Identifier: Apache-2.0
/// @file
/// Ranks that are threads of one process, for demos of worlds.
#pragma once

#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "weir/base/hash.hpp"
#include "weir/runtime/in_process.hpp"
#include "weir/world.hpp"

namespace demo {

/// Calls `body(world, rank)` on a thread for each rank, with an engine of `workers`
/// threads. Throws the exception of a rank after all have ended.
inline void on_ranks(
    std::int64_t ranks, std::int64_t workers,
    const std::function<void(weir::world&, weir::runtime::rank_id)>& body) {
  const auto count = static_cast<weir::runtime::rank_id>(ranks);
  weir::runtime::in_process_network network({.ranks = count});
  std::mutex guard;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (weir::runtime::rank_id rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        weir::engine tasks(static_cast<unsigned>(workers));
        weir::world w(tasks, network.transport_of(rank));
        body(w, rank);
      } catch (...) {
        const std::lock_guard lock(guard);
        first = first ? first : std::current_exception();
      }
    });
  }
  for (std::thread& one : threads) {
    one.join();
  }
  if (first) {
    std::rethrow_exception(first);
  }
}

/// Resumes the state of a world and returns the step from which the program goes on; rank
/// 0 prints it.
inline std::int64_t resume(weir::world& w, weir::runtime::rank_id rank) {
  const std::int64_t step = weir::or_throw(w.resume());
  if (rank == 0 && step != 0) {
    std::fprintf(stderr, "resumed at step %lld\n", static_cast<long long>(step));
  }
  return step;
}

/// Returns true if `repeat` has ended early because a rank was asked to stop; rank 0 then
/// prints the step.
[[nodiscard]] inline bool has_stopped(const weir::world& w, weir::runtime::rank_id rank) {
  if (w.stopped() && rank == 0) {
    std::fprintf(stderr,
                 "stopped before step %lld; the state is saved, if it has a "
                 "folder\n",
                 static_cast<long long>(w.stopped_at()));
  }
  return w.stopped();
}

/// Prints the tasks and messages of each rank and its waits for other ranks: a table on
/// standard error if there are several ranks, JSON on standard output. All ranks call it.
inline void print_counters(weir::world& w, weir::runtime::rank_id rank, bool table,
                           bool json) {
  table = table && w.base().ranks() > 1;  // one rank counts nothing
  if (!table && !json) {
    return;
  }
  const auto all = weir::or_throw(w.base().gather_counters());
  if (rank == 0 && table) {
    std::fputs(weir::runtime::counter_table(all).c_str(), stderr);
  }
  if (rank == 0 && json) {
    std::fputs(weir::runtime::counters_as_json(all).c_str(), stdout);
  }
}

/// Adds all elements of a tensor to a digest. All ranks call it, and get the same digest.
template <int Rank>
void add_elements(weir::world& w, const weir::world_tensor<double, Rank>& t,
                  weir::xxh3_stream& digest) {
  weir::or_throw(w.elements(t));
  const weir::runtime::tensor& all = t.all().bytes();
  digest.update(std::as_bytes(
      std::span(all.template as<const double>(), static_cast<std::size_t>(all.count()))));
}

}  // namespace demo
