// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks of accesses and named predecessors. The fast checks in the header only say yes
/// or no; the functions here find the reason of a refusal.
#include "engine/admission.hpp"

#include <fmt/core.h>

namespace weir::runtime {

/// Finds out why the fast check refused a task, and says it. The storages are looked at
/// first; if all of them hold their bytes, the number of accesses was the reason.
error admission::refusal(std::span<const access> accesses) const {
  for (const access& a : accesses) {
    const footprint& bytes = a.bytes;
    if (bytes.empty() || storages_.holds(bytes.id, bytes.lo, bytes.hi)) {
      continue;
    }
    if (!storages_.valid(bytes.id)) {
      return error(
          errc::not_found,
          fmt::format("submission with an unknown storage: expected a live one, found "
                      "index {} generation {}",
                      bytes.id.index, bytes.id.generation));
    }
    return error(
        errc::out_of_range,
        fmt::format("submission leaves its storage: expected bytes below {}, found "
                    "[{}, {})",
                    storages_.size(bytes.id), bytes.lo, bytes.hi));
  }
  return error(errc::out_of_range,
               fmt::format("submission with many accesses: expected at most {}, found {}",
                           max_accesses(), accesses.size()));
}

/// Checks the ids of tasks that the caller named as predecessors. Every id below `next`
/// was given out at some time. A task that has ended and left the window is a valid
/// predecessor; it just needs no edge.
result<void> admission::check_predecessors(std::span<const task_id> after, task_id next) {
  for (const task_id id : after) {
    if (id == 0 || id >= next) {
      return error(errc::invalid_argument,
                   fmt::format("submission after an unknown task: expected an id in "
                               "[1, {}), found {}",
                               next, id));
    }
  }
  return {};
}

}  // namespace weir::runtime
