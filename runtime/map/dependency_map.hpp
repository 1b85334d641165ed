// SPDX-License-Identifier: Apache-2.0
/// @file
/// TensorMap: answers which live accesses conflict with a new one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <type_traits>
#include <vector>

#include "map/region_index.hpp"
#include "weir/runtime/tensor.hpp"

namespace weir::runtime {

/// Accesses of tasks that have not been retired, by storage and kind. Tasks register
/// their accesses one after another and retire in the same order.
///
/// What a failed task wrote stays, without its task, until `forget_failures`: later
/// readers must learn of it.
/// @invariant for every access of a live task there is an entry, or a write of a later
/// task covers it
/// @threads{thread-compatible}
class dependency_map {
 public:
  using entry = access_entry;

  /// `most`: accesses that can be live at once.
  explicit dependency_map(std::uint32_t most) : ring_(most) {}
  dependency_map(const dependency_map&) = delete;
  dependency_map& operator=(const dependency_map&) = delete;

  /// Makes room for storages up to this index.
  void add_storage(std::uint32_t index);
  /// Forgets what failed tasks wrote to a storage. @pre no live task accesses it
  void remove_storage(std::uint32_t index) { failed_.erase(index); }

  /// Calls `visit(ref, entry)` for each live access of the kind that shares a byte with
  /// the query. If it returns true, the access is pruned.
  template <class Visit>
  void conflicts(const footprint& query, bool writers, Visit&& visit) {
    dependents& of = storages_[query.id.index];
    const bool dense = query.dense();
    (writers ? of.writers : of.readers)
        .query(ring_, grid_, query.lo, query.hi, [&](access_ref ref, const entry& e) {
          ++candidates_;
          if ((dense && e.dense) || meets(query, ref)) {
            if constexpr (std::is_void_v<decltype(visit(ref, e))>) {
              visit(ref, e);
            } else {
              const bool gone = visit(ref, e);
              pruned_ += static_cast<std::uint64_t>(gone);
              return gone;
            }
          }
          return false;
        });
  }
  /// Whether `only_writer` finds all: a single access, and both it and the query dense.
  [[nodiscard]] bool lone_writer(const footprint& query) noexcept {
    region_index& of = storages_[query.id.index].writers;
    if (!query.dense() || !of.alone()) {
      return false;
    }
    const entry* const e = of.only(ring_);
    return e == nullptr || (e->dense && !e->any_order);
  }
  /// The writer that shares a byte with the query, or null. @pre lone_writer(query)
  [[nodiscard]] const entry* only_writer(const footprint& query) noexcept {
    const entry* const e = storages_[query.id.index].writers.only(ring_);
    if (e == nullptr || e->lo >= query.hi || query.lo >= e->hi) {
      return nullptr;
    }
    ++candidates_;
    return e;
  }
  /// @pre only_writer(query) is not null
  void prune_only_writer(const footprint& query) noexcept {
    storages_[query.id.index].writers.prune_only(ring_);
    ++pruned_;
  }
  /// Whether `near_conflicts` finds all: few accesses, and a query that is dense.
  [[nodiscard]] bool near(const footprint& query, bool writers) const noexcept {
    const dependents& of = storages_[query.id.index];
    return query.dense() && !(writers ? of.writers : of.readers).in_grid();
  }
  /// As `conflicts`, at most `region_index::room` times. @pre near(query, writers)
  template <class Visit>
  void near_conflicts(const footprint& query, bool writers, Visit&& visit) {
    dependents& of = storages_[query.id.index];
    (writers ? of.writers : of.readers)
        .scan(ring_, query.lo, query.hi, [&](access_ref ref, const entry& e) {
          ++candidates_;
          const bool gone = (e.dense || meets(query, ref)) && visit(ref, e);
          pruned_ += static_cast<std::uint64_t>(gone);
          return gone;
        });
  }
  /// Whether some accesses are where a look-up may have to wait for memory.
  [[nodiscard]] bool in_grid() const noexcept { return grid_.size() != 0; }
  /// Asks for the memory that look-ups of the footprint will need.
  void prefetch(const footprint& query) const noexcept {
    const dependents& of = storages_[query.id.index];
    of.writers.prefetch(grid_, query.lo);
    of.readers.prefetch(grid_, query.lo);
  }
  /// Oldest failure behind what failed tasks have written to bytes of the query; 0 if
  /// none.
  [[nodiscard]] task_id failure_in(const footprint& query) const noexcept {
    return failed_.empty() ? 0 : search_failed(query);
  }
  /// Whether every byte of the entry is in the query, or the other way round; see
  /// `weir::runtime::covers`.
  [[nodiscard]] bool covered_by(const footprint& query, access_ref ref) const noexcept {
    const entry& e = ring_.at(ref);
    return query.lo <= e.lo && e.hi <= query.hi &&
           (query.dense() || covers(query, bytes_of(ref, query.id)));
  }
  [[nodiscard]] bool covering(access_ref ref, const footprint& query) const noexcept {
    const entry& e = ring_.at(ref);
    return e.lo <= query.lo && query.hi <= e.hi &&
           (e.dense || covers(bytes_of(ref, query.id), query));
  }

  [[nodiscard]] bool same_bytes(access_ref ref, const footprint& query) const noexcept {
    const entry& e = ring_.at(ref);
    return e.lo == query.lo && e.hi == query.hi && e.dense == query.dense() &&
           (e.dense || bytes_of(ref, query.id) == query);
  }
  /// The access commutes with others of the same bytes in any order.
  void set_any_order(access_ref ref) noexcept { ring_.at(ref).any_order = true; }

  /// Accesses that can still be registered before some must retire.
  [[nodiscard]] std::uint32_t room() const noexcept {
    return ring_.most() - ring_.size();
  }
  [[nodiscard]] std::uint32_t most() const noexcept { return ring_.most(); }
  /// Registers an access of the newest task. @pre the footprint is not empty; room() > 0
  access_ref insert(const footprint& bytes, bool writer, task_id task) {
    const access_ref ref = ring_.push();
    entry& e = ring_.at(ref);
    const std::int64_t lo = bytes.lo;
    const std::int64_t hi = bytes.hi;
    e.task = task;
    e.lo = lo;
    e.hi = hi;
    e.dense = bytes.dense();
    e.pruned = false;
    e.any_order = false;
    if (!e.dense) {
      keep_steps(ref, bytes);
    }
    dependents& of = storages_[bytes.id.index];
    (writer ? of.writers : of.readers).insert(ring_, grid_, ref, lo, hi);
    return ref;
  }
  /// Takes an entry out because a newer write covers it; it retires with its task all the
  /// same.
  void prune(access_ref ref) {
    if (!ring_.at(ref).pruned) {
      index_of(ring_.at(ref)).prune(ring_, grid_, ref);
    }
  }
  /// The oldest task, which has registered `count` accesses, is gone. What it wrote is
  /// remembered if it failed (`root` is not 0).
  void retire(std::uint32_t count, task_id root) {
    if (root != 0) {
      keep_failed(count, root);
    }
    if (grid_.size() != 0) {
      for (access_ref ref = ring_.oldest(), i = 0; i < count; ++i) {
        const entry& e = ring_.at(ref + i);
        if (e.cells != 0 && !e.pruned) {
          index_of(e).retire(grid_, e);
        }
      }
    }
    ring_.pop(count);
  }
  /// Remembers what a failed task wrote.
  void add_failed(const footprint& bytes, task_id root);
  void forget_failures() { failed_.clear(); }

  /// Whether the entry can still be found.
  [[nodiscard]] bool linked(access_ref ref) const noexcept {
    return !ring_.at(ref).pruned;
  }
  /// Whether there is nothing to be found.
  [[nodiscard]] bool empty() const noexcept {
    return ring_.size() == 0 && failed_.empty();
  }

  /// Accesses whose first and last byte asked for a closer look.
  [[nodiscard]] std::uint64_t candidates() const noexcept { return candidates_; }
  /// Those of them that were not decided by that alone.
  [[nodiscard]] std::uint64_t tests() const noexcept { return tests_; }
  /// Accesses taken out by look-ups.
  [[nodiscard]] std::uint64_t pruned() const noexcept { return pruned_; }
  [[nodiscard]] std::uint64_t maybe() const noexcept { return maybe_; }

 private:
  struct dependents {
    explicit dependents(std::uint32_t index)
        : writers(2 * index + 1), readers(2 * index) {}
    region_index writers;
    region_index readers;
  };
  struct failed_write {
    footprint bytes;
    task_id root;
  };

  [[nodiscard]] bool meets(const footprint& query, access_ref ref) noexcept;
  [[nodiscard]] footprint bytes_of(access_ref ref, storage_id id) const noexcept;
  [[nodiscard]] region_index& index_of(const entry& e) noexcept {
    dependents& of = storages_[e.owner >> 1];
    return e.writer() ? of.writers : of.readers;
  }
  void keep_steps(access_ref ref, const footprint& bytes);
  void keep_failed(std::uint32_t count, task_id root);
  [[nodiscard]] task_id search_failed(const footprint& query) const noexcept;

  access_ring ring_;
  region_grid grid_{ring_};
  std::vector<dependents> storages_;  ///< by index
  /// By number modulo its size, which is that of the ring when last one was added; only
  /// those of entries that are not dense are set.
  std::vector<footprint> strided_;
  std::map<std::uint32_t, std::vector<failed_write>> failed_;  ///< by storage
  std::uint64_t candidates_ = 0;
  std::uint64_t tests_ = 0;
  std::uint64_t pruned_ = 0;
  std::uint64_t maybe_ = 0;
};

}  // namespace weir::runtime
