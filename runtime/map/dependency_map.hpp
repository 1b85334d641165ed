// SPDX-License-Identifier: Apache-2.0
/// @file
/// TensorMap: answers which live accesses conflict with a new one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "map/region_index.hpp"
#include "map/tally.hpp"
#include "weir/runtime/tensor.hpp"

namespace weir::runtime {

/// Accesses of tasks that have not been retired, by storage and kind (read or written).
///
/// Each access gets a number when it is registered. Tasks register their accesses one
/// after another and retire in the same order, so the live accesses are always the last
/// numbers of one ring (`access_ring`), and "is this access gone" is one comparison.
/// Retirement therefore removes nothing from the lists: a look-up drops what is gone when
/// it meets it.
///
/// An index (`region_index`) holds up to eight accesses of one kind to one storage side
/// by side, which are compared four or eight at a time. When it is full, it moves to the
/// grid that all storages share (`region_grid`).
///
/// **Writes take bytes from older accesses.** A task that comes after a write, and
/// conflicts with an access that the write covers, conflicts with the write as well. The
/// edge to the write is then enough, because the write waits for the older access itself.
/// `take` therefore removes the bytes of a new write from older entries, as far as the
/// rest is a footprint again. Without it, a loop that overwrites a tensor would compare
/// with all its past readers.
///
/// The bytes that a failed task should have written stay known, without their task, until
/// `forget_failures`, because later readers must learn of the failure.
/// @invariant every byte of every access of a live task is in its entry, or a write of a
/// later task covers it
/// @threads{thread-compatible}
class dependency_map {
 public:
  using entry = access_entry;

  /// Makes an empty map in which `max_size` accesses can be live at once.
  explicit dependency_map(std::uint32_t max_size) : ring_(max_size) {}
  dependency_map(const dependency_map&) = delete;
  dependency_map& operator=(const dependency_map&) = delete;

  /// Makes indexes for storages up to this index.
  void add_storage(std::uint32_t index);
  /// Forgets the failed writes to a storage. @pre no live task accesses it
  void remove_storage(std::uint32_t index) { failed_.erase(index); }

  /// Calls `visit(ref, entry)` for each live access of the kind that shares a byte with
  /// the query. The visitor may `take` from the entry. If it returns true, the access is
  /// pruned. The caller publishes the counts afterwards.
  template <class Visit>
  void conflicts(const footprint& query, bool writers, Visit&& visit) {
    index_of(query.id, writers).query(ring_, grid_, query.lo, query.hi, [&](entry& e) {
      return meets(query, e, visit);
    });
  }
  /// Returns true if the accesses of the kind are so few that `near_conflicts` finds all.
  [[nodiscard]] bool near(const footprint& query, bool writers) const noexcept {
    return !index_of(query.id, writers).in_grid();
  }
  /// Does the same as `conflicts`, in the order from old to new, and calls `visit` at
  /// most `region_index::inline_capacity` times. @pre near(query, writers)
  template <class Visit>
  void near_conflicts(const footprint& query, bool writers, Visit&& visit) {
    index_of(query.id, writers).scan(ring_, query.lo, query.hi, [&](entry& e) {
      return meets(query, e, visit);
    });
  }
  /// Returns the accesses of the kind to the storage. A caller that examines them itself
  /// counts candidates and pruned ones.
  [[nodiscard]] region_index& index_of(storage_id id, bool writers) noexcept {
    return indexes_of(id)[static_cast<std::size_t>(writers)];
  }
  /// Returns the index of readers; the index of writers follows it.
  [[nodiscard]] region_index* indexes_of(storage_id id) noexcept {
    return &indexes_[std::size_t{id.index} * 2];
  }
  /// Returns the smallest tag of a live access.
  [[nodiscard]] std::uint64_t oldest_tag() const noexcept { return ring_.oldest_tag(); }
  /// Count an access that was compared, and one that was removed.
  void count_candidate() noexcept { ++candidates_; }
  void count_pruned() noexcept { ++pruned_; }
  /// Calls `visit` as `conflicts` does, for one access, if it shares a byte with the
  /// query.
  template <class Visit>
  [[nodiscard]] bool meets(const footprint& query, entry& e, Visit&& visit) {
    ++candidates_;
    if (!(query.dense() && e.dense()) && !share_a_byte(query, e)) {
      return false;
    }
    if constexpr (std::is_void_v<decltype(visit(access_ref(), e))>) {
      visit(e.ref(), e);
      return false;
    } else {
      const bool gone = visit(e.ref(), e);
      pruned_ += static_cast<std::uint64_t>(gone);
      return gone;
    }
  }
  /// Adds the counts of the look-ups since the last call to the public counters.
  void publish_counts() noexcept {
    tally(counters_.candidates, std::exchange(candidates_, 0));
    tally(counters_.pruned, std::exchange(pruned_, 0));
  }
  /// Returns true if accesses lie in the grid, where a look-up may have to wait for
  /// memory.
  [[nodiscard]] bool in_grid() const noexcept { return grid_.size() != 0; }
  /// Prefetches the memory that look-ups of the footprint will need.
  void prefetch(const footprint& query) const noexcept {
    index_of(query.id, true).prefetch(grid_, query.lo);
    index_of(query.id, false).prefetch(grid_, query.lo);
  }
  /// Returns the oldest failure behind bytes of the query that failed tasks should have
  /// written; 0 if there is none.
  [[nodiscard]] task_id failure_in(const footprint& query) const noexcept {
    return failed_.empty() ? 0 : search_failed(query);
  }
  [[nodiscard]] bool has_failures() const noexcept { return !failed_.empty(); }
  /// Removes the bytes of a write, which shares one with the entry, from the entry if the
  /// rest is a footprint again. Returns true if nothing is left. An entry that commutes
  /// in any order goes as a whole or not at all: a part of it would look like an access
  /// of other bytes and would no longer find its companions.
  bool take(const footprint& write, entry& e) noexcept {
    return write.dense() && e.plain() ? e.take(write.lo, write.hi) : take_steps(write, e);
  }
  /// Returns true if every byte of the query is in the entry; see
  /// `weir::runtime::covers`.
  [[nodiscard]] bool covering(const entry& e, const footprint& query) const noexcept {
    return e.lo <= query.lo && query.hi <= e.hi &&
           (e.dense() || covers(bytes_of(e, query.id), query));
  }
  /// Returns true if entry and query have exactly the same bytes.
  [[nodiscard]] bool same_bytes(const entry& e, const footprint& query) const noexcept {
    return e.lo == query.lo && e.hi == query.hi && e.dense() == query.dense() &&
           (e.dense() || bytes_of(e, query.id) == query);
  }

  /// Returns the number of accesses that can be registered before some must retire.
  [[nodiscard]] std::uint32_t space() const noexcept {
    return ring_.max_size() - ring_.size();
  }
  [[nodiscard]] std::uint32_t max_size() const noexcept { return ring_.max_size(); }
  /// Registers an access of the newest task. `any_order` says that it commutes with
  /// others of the same bytes in any order. @pre the footprint is not empty; space() > 0
  access_ref insert(const footprint& bytes, bool writer, task_id task,
                    bool any_order = false) {
    reserve(1);
    insert_next(bytes, writer, task, any_order);
    return ring_.newest();
  }
  /// Provides capacity for `count` accesses, which are then inserted by `insert_next`.
  /// @pre space() >= count
  void reserve(std::size_t count) {
    if (ring_.registered() + count > reserved_) {
      make_space(count);
    }
  }
  /// Inserts an access for which capacity has been provided.
  [[gnu::always_inline]] void insert_next(const footprint& bytes, bool writer,
                                          task_id task, bool any_order) {
    region_index& index = index_of(bytes.id, writer);
    if (any_order || !bytes.dense()) {
      insert_any(index, bytes, task, any_order);
    } else {
      insert_dense(index, bytes, task);
    }
  }
  /// Inserts a plain dense region into its index.
  [[gnu::always_inline]] void insert_dense(region_index& index, const footprint& bytes,
                                           task_id task) {
    if (index.insert_near(ring_, bytes, task)) {
      return;
    }
    if (index.in_grid()) {
      index.insert_far(ring_, grid_, bytes, task);
    } else {
      insert_any(index, bytes, task, false);
    }
  }
  /// Continues the numbers as if `count` accesses, at most 2^29, had been registered and
  /// retired. Tests reach large numbers by it. @pre no access is live
  void skip(std::uint64_t count) {
    ring_.skip(count);
    reserve(0);
  }
  /// Removes an entry because a newer write covers it. It still counts until its task
  /// retires. @pre linked(ref)
  void prune(access_ref ref) { indexes_[ring_.owner(ref)].prune(ring_, grid_, ref); }
  /// Retires the oldest task, which has registered `count` accesses. If it failed (`root`
  /// is not 0), its writes are remembered.
  void retire(std::uint32_t count, task_id root) {
    if (root != 0) {
      keep_failed(count, root);
    }
    if (grid_.size() != 0 && count != 0) {
      retire_far(count);
    }
    ring_.pop(count);
  }
  /// Remembers a write of a failed task. `root` is the task where the failure began.
  void add_failed(const footprint& bytes, task_id root);
  void forget_failures() { failed_.clear(); }

  /// Returns true if a live access can still be found.
  [[nodiscard]] bool linked(access_ref ref) const noexcept {
    return indexes_[ring_.owner(ref)].find(ring_, ref) != nullptr;
  }
  /// Returns true if no look-up can find anything.
  [[nodiscard]] bool empty() const noexcept {
    return ring_.size() == 0 && failed_.empty();
  }

  /// Counters. @threads{any thread may read them}
  struct counters {
    /// Accesses whose first and last byte did not rule out a conflict.
    std::atomic<std::uint64_t> candidates{0};
    /// Candidates that needed the exact test.
    std::atomic<std::uint64_t> tests{0};
    std::atomic<std::uint64_t> maybe{0};  ///< exact tests without a decision
    /// Accesses removed by look-ups.
    std::atomic<std::uint64_t> pruned{0};
  };
  [[nodiscard]] const counters& counted() const noexcept { return counters_; }

 private:
  /// A write of a failed task, and the task where the failure began.
  struct failed_write {
    footprint bytes;
    task_id root;
  };
  /// Returns the number of the index for a storage and a kind.
  [[nodiscard]] static std::uint32_t owner_of(storage_id id, bool writer) noexcept {
    return id.index * 2 + static_cast<std::uint32_t>(writer);
  }
  [[nodiscard]] const region_index& index_of(storage_id id, bool writers) const noexcept {
    return indexes_[owner_of(id, writers)];
  }
  /// Decides exactly, or with a doubt for sharing, whether two regions share a byte.
  [[nodiscard]] bool share_a_byte(const footprint& query, const entry& e) noexcept;
  /// Returns the footprint of an entry of the storage `id`.
  [[nodiscard]] footprint bytes_of(const entry& e, storage_id id) const noexcept;
  /// `take` for cases with a strided region or an access that commutes.
  bool take_steps(const footprint& write, entry& e) noexcept;
  /// Removes the oldest accesses from the counts of the grid.
  void retire_far(std::uint32_t count) noexcept;
  /// The slow part of `reserve`.
  void make_space(std::size_t count);
  /// The general insertion of an access.
  void insert_any(region_index& index, const footprint& bytes, task_id task,
                  bool any_order);
  /// Stores the footprint of a strided access.
  void keep_steps(access_ref ref, const footprint& bytes);
  /// Remembers the writes of the oldest task, which has failed.
  void keep_failed(std::uint32_t count, task_id root);
  /// Returns the oldest failure in bytes of the query, or 0.
  [[nodiscard]] task_id search_failed(const footprint& query) const noexcept;

  access_ring ring_;
  region_grid grid_{ring_};
  std::vector<region_index> indexes_;  ///< index of owner: storage * 2, + 1 for writers
  /// Footprints of strided entries, by the number of the access modulo the size of this
  /// list. The size is that of the ring when an entry was last added.
  std::vector<footprint> strided_;
  /// failed writes to each storage
  std::map<std::uint32_t, std::vector<failed_write>> failed_;
  /// registered accesses at which old heads must be cleaned
  std::uint64_t heads_until_ = region_grid::heads_last;
  /// registered accesses up to which `reserve` has nothing to do
  std::uint64_t reserved_ = 0;
  std::uint64_t candidates_ = 0;  ///< not published yet
  std::uint64_t pruned_ = 0;      ///< not published yet
  counters counters_;
};

}  // namespace weir::runtime
