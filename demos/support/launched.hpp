// SPDX-License-Identifier: Apache-2.0
/// @file
/// Ranks for demos of worlds: processes that a launcher of MPI has started together, or
/// else threads of one process.
#pragma once

#include <exception>
#include <functional>
#include <stdexcept>

#include "support/ranks.hpp"
#include "weir/mpi/ranks.hpp"

namespace demo {

/// Calls `body(world, rank)` for the rank of this process if a launcher has started
/// several, and else as `on_ranks` does for `ranks` threads. Call it once. Exceptions of
/// ranks other than 0 name the rank and its machine.
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
  try {
    body(w, link->rank());
  } catch (const std::exception& e) {
    if (link->rank() == 0) {
      throw;
    }
    throw std::runtime_error(weir::runtime::line_prefix(link->rank()) + e.what());
  }
}

}  // namespace demo
