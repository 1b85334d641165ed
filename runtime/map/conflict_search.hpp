// SPDX-License-Identifier: Apache-2.0
/// @file
/// The search from the accesses of a new task to the tasks that it must wait for.
///
/// The submitting thread of the engine uses one search for each task before the task is
/// registered. Captured graphs use searches of their own.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "map/dependency_map.hpp"
#include "map/predecessors.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::runtime {

/// Returns true if an access takes part in the order of tasks.
[[nodiscard]] inline bool is_ordered(const access& a) noexcept {
  return !a.bytes.empty() && a.mode != access_mode::none;
}

/// Returns true if an access takes part in the order of tasks and commutes with no other.
[[nodiscard]] inline bool is_plain(const access& a) noexcept {
  return !a.bytes.empty() && a.mode <= access_mode::read_write;
}

/// A TensorMap, and the predecessors that one submission has found in it.
///
/// A read waits for earlier writers of its bytes (RAW). A write waits for earlier writers
/// (WAW, or RAW if it reads as well) and for earlier readers (WAR). The newest writer
/// that covers all bytes of the access is the *floor*: whatever is older was ordered
/// before that writer, so an edge to it would be implied and is left out (`implied`).
///
/// The functions for plain accesses of dense regions are written out, with one comparison
/// for an index that holds a single entry, because nearly all accesses of a program are
/// of this kind. They find the same predecessors as the general `look_up`.
/// @threads{thread-compatible}
class conflict_search {
 public:
  /// Makes an empty map. Ids of live tasks differ modulo `window`, a power of two.
  conflict_search(std::uint32_t max_accesses, std::uint32_t window)
      : map_(max_accesses), predecessors_(window) {}

  [[nodiscard]] dependency_map& map() noexcept { return map_; }
  [[nodiscard]] const dependency_map& map() const noexcept { return map_; }

  /// Begins the search for a new task, which has no predecessors yet.
  void start(task_id by) {
    predecessors_.start(by);
    failure_ = 0;
    companion_ = 0;
  }
  /// Adds a predecessor that the program asks for. It has not been retired.
  void add(task_id before, hazard why) { predecessors_.add(before, why); }
  /// Adds the predecessors that one access needs. With `prune`, bytes that a write covers
  /// are taken from older accesses. With `any_order`, an access that was registered so
  /// for the same bytes is a companion and no predecessor. @pre is_ordered(a)
  void look_up(const access& a, bool prune, bool any_order = false);
  /// Does so for all accesses that take part in the order of tasks, and returns how many
  /// these are. `grouped` is the one of them that commutes in any order, or null.
  std::uint32_t look_up_all(std::span<const access> accesses, bool prune,
                            const access* grouped);
  /// Registers an access of the newest task.
  access_ref insert(const access& a, task_id task, bool any_order = false) {
    return map_.insert(a.bytes, a.mode != access_mode::read, task, any_order);
  }

  /// Registers all accesses that take part in the order of tasks, and returns how many
  /// these are. `grouped` is as in `look_up_all`. @pre the map has capacity for all
  std::uint32_t insert_all(std::span<const access> accesses, task_id task,
                           const access* grouped);
  /// Looks up, with `prune`, and registers accesses one after another. @pre all are
  /// `is_plain`; the map has capacity for them; `start` was called for `task`
  void enter_plain(std::span<const access> accesses, task_id task);

  /// Returns the predecessors of the task, each once.
  [[nodiscard]] predecessor_list::view found() const noexcept {
    return predecessor_list::view(predecessors_);
  }
  /// Returns the oldest failure that the task inherits, because it accesses bytes that a
  /// failed task should have written; 0 if there is none.
  [[nodiscard]] task_id failure() const noexcept { return failure_; }
  /// Returns a task that commutes with this one in any order; 0 if there is none.
  [[nodiscard]] task_id companion() const noexcept { return companion_; }
  /// Returns the number of conflicts so far that needed no edge, because a later write of
  /// all the bytes is between both tasks. @threads{safe from any thread}
  [[nodiscard]] std::uint64_t implied() const noexcept {
    return implied_.load(std::memory_order_relaxed);
  }

 private:
  /// The parameters of a look-up.
  struct lookup_parameters {
    hazard why;
    bool prune;
    bool any_order;
  };
  /// Adds a writer, unless it is older than the floor. A smaller id is an older task.
  void add_writer(task_id id, hazard why, task_id floor) {
    if (id >= floor) {
      predecessors_.add(id, why);
    } else {
      tally<std::uint64_t>(implied_);
    }
  }
  /// Adds a reader, unless it is older than the floor. A reader that was found as a
  /// writer before keeps that stronger reason.
  void add_reader(task_id id, task_id floor) {
    if (id >= floor) {
      predecessors_.add_new(id, hazard::war);
    } else {
      tally<std::uint64_t>(implied_);
    }
  }
  void prefetch(std::span<const access> accesses) const noexcept;
  /// Looks up one access of any kind.
  void look_up_one(const access& a, bool prune, bool any_order);
  void look_up_read(const access& a);
  /// Looks up a read of a dense region.
  void look_up_dense_read(const access& a, region_index& writers, std::uint64_t oldest);
  void look_up_write(const access& a, bool prune, bool any_order);
  /// Looks up a write of a dense region.
  void look_up_dense_write(const access& a, region_index& readers, region_index& writers);
  /// Looks up and registers a write of a dense region.
  void enter_dense_write(const access& a, task_id task);
  /// Looks up and registers an access of a strided region.
  void enter_steps(const access& a, task_id task);
  /// Returns the newest writer of all the bytes, or 0.
  task_id find_writers(const access& a, const lookup_parameters& q);
  task_id find_near_writers(const access& a, const lookup_parameters& q);
  task_id find_far_writers(const access& a, const lookup_parameters& q);
  /// Adds the readers of bytes that the access writes.
  void find_readers(const access& a, bool prune, task_id floor);
  /// Examines one reader, which may be strided. Returns true if it is to be removed.
  bool find_reader(const access& a, task_id floor, access_entry& e);
  /// Keeps the oldest failure that these accesses inherit.
  void note_failures(std::span<const access> accesses);
  /// Returns true if the entry is a companion of the access, and notes its task.
  [[nodiscard]] bool is_companion(const access& a, const lookup_parameters& q,
                                  const access_entry& e) noexcept {
    if (!e.any_order() || !q.any_order || !map_.same_bytes(e, a.bytes)) {
      return false;
    }
    companion_ = e.task;
    return true;
  }

  dependency_map map_;
  predecessor_list predecessors_;
  std::vector<task_id> found_;
  task_id failure_ = 0;
  task_id companion_ = 0;
  std::atomic<std::uint64_t> implied_{0};
};

}  // namespace weir::runtime
