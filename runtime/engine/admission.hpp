// SPDX-License-Identifier: Apache-2.0
/// @file
/// The checks that decide if a submission is allowed.
#pragma once

#include <cstdint>
#include <span>

#include "map/dependency_map.hpp"
#include "tasks/storage_table.hpp"
#include "weir/runtime/calls/direct_calls.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::runtime {

/// Checks submissions before anything is changed for them, so that a refused submission
/// leaves no trace.
/// @threads{the submitter}
class admission {
 public:
  admission(const storage_table& storages, const dependency_map& map) noexcept
      : storages_(storages), map_(map) {}

  /// Returns true if the accesses are allowed and all are `is_plain`. This is the usual
  /// case, decided in one pass.
  [[nodiscard]] bool all_plain(std::span<const access> accesses) const noexcept {
    for (const access& a : accesses) {
      if (a.mode > access_mode::read_write ||
          !storages_.holds(a.bytes.id, a.bytes.lo, a.bytes.hi)) {
        return false;
      }
    }
    return !too_many(accesses);
  }
  /// Does the same for accesses that lie elsewhere.
  [[nodiscard]] bool all_plain(std::span<const borrowed_access> accesses) const noexcept {
    for (const borrowed_access& a : accesses) {
      if (a.mode > access_mode::read_write ||
          !storages_.holds(a.bytes->id, a.bytes->lo, a.bytes->hi)) {
        return false;
      }
    }
    return accesses.size() <= max_accesses();
  }
  /// Returns true if the accesses, of whatever mode, are allowed.
  [[nodiscard]] bool allowed(std::span<const access> accesses) const noexcept {
    for (const access& a : accesses) {
      if (!a.bytes.empty() && !storages_.holds(a.bytes.id, a.bytes.lo, a.bytes.hi)) {
        return false;
      }
    }
    return !too_many(accesses);
  }
  /// Returns the reason of a refusal: not_found for a stale storage id; out_of_range for
  /// bytes outside their storage, or for more accesses than a task may have.
  [[nodiscard]] error refusal(std::span<const access> accesses) const;
  /// Checks the predecessors that the program named.
  /// @error{invalid_argument, one is not in [1, next)}
  [[nodiscard]] static result<void> check_predecessors(std::span<const task_id> after,
                                                       task_id next);

 private:
  [[nodiscard]] std::uint32_t max_accesses() const noexcept {
    return map_.max_size() < UINT16_MAX ? map_.max_size() : UINT16_MAX;
  }
  [[nodiscard]] bool too_many(std::span<const access> accesses) const noexcept {
    return accesses.size() > max_accesses();
  }

  const storage_table& storages_;
  const dependency_map& map_;
};

}  // namespace weir::runtime
