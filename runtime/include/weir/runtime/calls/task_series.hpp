// SPDX-License-Identifier: Apache-2.0
/// @file
/// Many tasks that a program submits to a world by one call, one for each tile of a
/// tensor for example. A rank looks at the tasks that concern it, and at the other ranks
/// as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weir/runtime/access.hpp"
#include "weir/runtime/transport.hpp"

namespace weir::runtime {

/// Bytes [lo, hi) of a storage. @units{bytes}
struct byte_range {
  std::int64_t lo = 0;  ///< first byte
  std::int64_t hi = 0;  ///< one past the last byte
};

/// One access of the tasks of a series. All tasks have the same number of accesses, in
/// the same order.
struct series_access {
  storage_id store;                      ///< storage that all tasks access
  access_mode mode = access_mode::read;  ///< use of the bytes
};

/// Tasks with numbers from 0 on, whose accesses and executors follow from their numbers.
/// The tasks of a rank have numbers without a gap, and those of a higher rank have higher
/// numbers.
/// @threads{const; used by the submitter of the engine}
class task_series {
 public:
  virtual ~task_series() = default;

  /// Returns the name of the tasks, a literal.
  [[nodiscard]] virtual const char* name() const noexcept = 0;
  /// Returns a hash of everything from which executors and bytes follow, apart from
  /// storages. It is the same on all ranks.
  [[nodiscard]] virtual std::uint64_t digest() const noexcept = 0;
  /// Returns a hash that is equal for kernels that do the same; 0 if that is unknown.
  [[nodiscard]] virtual std::uint64_t identity() const noexcept = 0;
  /// Returns the accesses of each task.
  [[nodiscard]] virtual std::span<const series_access> accesses() const noexcept = 0;
  /// Returns the number of tasks.
  [[nodiscard]] virtual std::int64_t size() const noexcept = 0;
  /// Returns the rank of a number of ranks that runs a task.
  [[nodiscard]] virtual rank_id executor_of(std::int64_t task,
                                            rank_id ranks) const noexcept = 0;
  /// Returns the number behind the last task of a rank and of all lower ranks.
  [[nodiscard]] virtual std::int64_t end_of(rank_id executor,
                                            rank_id ranks) const noexcept = 0;
  /// Returns a range that has the bytes of one access of the tasks from `first` to the
  /// one before `last`, and perhaps others. Finding it costs little.
  [[nodiscard]] virtual byte_range hull_of(std::size_t number, std::int64_t first,
                                           std::int64_t last) const noexcept = 0;
  /// Sets `out` to the accesses of a task. Returns false if there is no task of this
  /// number.
  [[nodiscard]] virtual bool find_accesses(std::int64_t task,
                                           std::vector<access>& out) const = 0;
  /// Submits a task to the engine by `world::start`, if there is one of this number.
  /// `step` is the number of its submission. Also returns the errors of `world::start`.
  [[nodiscard]] virtual result<void> start(std::int64_t task,
                                           std::uint64_t step) const = 0;

 protected:
  task_series() = default;
  task_series(const task_series&) = default;
  task_series& operator=(const task_series&) = default;
};

}  // namespace weir::runtime
