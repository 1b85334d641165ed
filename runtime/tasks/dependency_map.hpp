// SPDX-License-Identifier: Apache-2.0
/// @file
/// TensorMap: answers which live accesses conflict with a new one.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

#include "tasks/region_index.hpp"
#include "tasks/task.hpp"
#include "weir/runtime/tensor.hpp"

namespace weir::runtime {

/// Accesses of tasks that have not been retired, by storage and kind. Entries of a task
/// form a list.
///
/// What a failed task wrote stays, without its task, until `forget_failures`: later
/// readers must learn of it.
/// @invariant for every access of a live task there is an entry, or a write of a later
/// task covers it
/// @threads{thread-compatible}
class dependency_map {
 public:
  struct entry {
    footprint bytes;
    task_id task = 0;  ///< 0: the task is gone, and failed
    task_id root = 0;  ///< its failure, if the task is gone
    std::uint32_t next_of_task = no_entry;
    std::uint32_t failed_position = 0;  ///< in `failed_`, if the task is gone
    bool writer = false;
    bool linked = false;
  };

  explicit dependency_map(std::uint32_t expected_entries);

  /// Makes room for storages up to this index.
  void add_storage(std::uint32_t index);
  /// Forgets what failed tasks wrote to a storage. @pre no live task accesses it
  void remove_storage(std::uint32_t index);

  /// Calls `visit(ref, entry)` for each live access of the kind that shares a byte with
  /// the query.
  template <class Visit>
  void conflicts(const footprint& query, bool writers, Visit&& visit) {
    const dependents& of = storages_[query.id.index];
    (writers ? of.writers : of.readers)
        .query(grid_, query.lo, query.hi, [&](std::uint32_t ref) {
          const entry& e = entries_[ref];
          ++tests_;
          if (!(query.dense() && e.bytes.dense())) {
            const overlap answer = decide_overlap(query, e.bytes);
            if (answer == overlap::no) {
              return;
            }
            maybe_ += static_cast<std::uint64_t>(answer == overlap::maybe);
          }
          visit(ref, e);
        });
  }

  /// Adds an access in front of the task's list `next`; returns the new front. The
  /// footprint is not empty.
  std::uint32_t insert(const footprint& bytes, bool writer, task_id task,
                       std::uint32_t next);
  /// Takes an entry out because a newer write covers it; it stays in its task's list.
  void prune(std::uint32_t ref);
  /// Gives the task's list back; writes of a failed task stay behind with its root.
  void retire(std::uint32_t first, task_id root);
  void forget_failures();

  [[nodiscard]] std::uint64_t tests() const noexcept { return tests_; }
  [[nodiscard]] std::uint64_t maybe() const noexcept { return maybe_; }

 private:
  struct dependents {
    explicit dependents(std::uint32_t index)
        : writers(2 * index), readers(2 * index + 1) {}
    region_index writers;
    region_index readers;
  };

  void unlink(std::uint32_t ref);
  void free(std::uint32_t ref);
  void leave_behind(std::uint32_t ref, task_id root);
  void drop_failed(std::uint32_t ref);

  std::deque<dependents> storages_;  ///< by index
  std::vector<entry> entries_;
  std::uint32_t free_ = no_entry;
  std::vector<std::uint32_t> failed_;
  region_grid grid_;
  std::uint64_t tests_ = 0;
  std::uint64_t maybe_ = 0;
};

}  // namespace weir::runtime
