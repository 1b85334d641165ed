// SPDX-License-Identifier: Apache-2.0
/// @file
/// Ranks for demos of worlds: processes that a launcher of MPI has started together, or
/// else threads of one process.
#pragma once

#include <functional>

#include "support/ranks.hpp"
#include "weir/mpi/ranks.hpp"

namespace demo {

/// Calls `body(world, rank)` for the rank of this process if a launcher has started
/// several, and else as `on_ranks` does for `ranks` threads. Call it once.
inline void on_launched_ranks(
    std::int64_t ranks, std::int64_t workers,
    const std::function<void(weir::world&, weir::runtime::rank_id)>& body) {
  const auto link = weir::or_throw(weir::launched_ranks());
  if (!link) {
    on_ranks(ranks, workers, body);
    return;
  }
  weir::engine tasks(static_cast<unsigned>(workers));
  weir::world w(tasks, *link);
  body(w, link->rank());
}

}  // namespace demo
