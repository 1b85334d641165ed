// SPDX-License-Identifier: Apache-2.0
/// @file
/// TensorMap: answers which live accesses conflict with a new one.
#pragma once

#include <cstdint>
#include <vector>

#include "map/region_index.hpp"
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
  using entry = access_entry;

  explicit dependency_map(std::uint32_t expected_entries);
  dependency_map(const dependency_map&) = delete;
  dependency_map& operator=(const dependency_map&) = delete;

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
          const entry& e = pool_[ref];
          ++tests_;
          if ((query.dense() && e.dense) || meets(query, ref)) {
            visit(ref, e);
          }
        });
  }
  /// Whether every byte of the entry is in the query, or the other way round; see
  /// `weir::runtime::covers`.
  [[nodiscard]] bool covered_by(const footprint& query,
                                std::uint32_t ref) const noexcept {
    const entry& e = pool_[ref];
    return query.lo <= e.lo && e.hi <= query.hi &&
           (query.dense() || covers(query, bytes_of(ref, query.id)));
  }
  [[nodiscard]] bool covering(std::uint32_t ref, const footprint& query) const noexcept {
    const entry& e = pool_[ref];
    return e.lo <= query.lo && query.hi <= e.hi &&
           (e.dense || covers(bytes_of(ref, query.id), query));
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
  /// Whether the entry can still be found.
  [[nodiscard]] bool linked(std::uint32_t ref) const noexcept {
    return pool_[ref].linked;
  }
  /// Entries that can be found.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  [[nodiscard]] std::uint64_t tests() const noexcept { return tests_; }
  [[nodiscard]] std::uint64_t maybe() const noexcept { return maybe_; }

 private:
  struct dependents {
    explicit dependents(std::uint32_t index)
        : writers(2 * index + 1), readers(2 * index) {}
    region_index writers;
    region_index readers;
  };

  [[nodiscard]] bool meets(const footprint& query, std::uint32_t ref) noexcept;
  [[nodiscard]] footprint bytes_of(std::uint32_t ref, storage_id id) const noexcept;
  [[nodiscard]] region_index& index_of(const entry& e) noexcept;
  void unlink(std::uint32_t ref);
  void free(std::uint32_t ref);
  void leave_behind(std::uint32_t ref, task_id root);
  void drop_failed(std::uint32_t ref);

  std::vector<dependents> storages_;  ///< by index
  access_pool pool_;
  std::vector<footprint>
      strided_;  ///< by entry; only those of entries that are not dense are set
  std::uint32_t free_ = no_entry;
  std::vector<std::uint32_t> failed_;
  region_grid grid_{pool_};
  std::size_t size_ = 0;
  std::uint64_t tests_ = 0;
  std::uint64_t maybe_ = 0;
};

}  // namespace weir::runtime
