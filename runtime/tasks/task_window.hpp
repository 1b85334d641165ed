// SPDX-License-Identifier: Apache-2.0
/// @file
/// The tasks in flight: their records, their ids, and the end of their life.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "map/dependency_map.hpp"
#include "map/tally.hpp"
#include "tasks/exclusion.hpp"
#include "tasks/failure_log.hpp"
#include "tasks/scheduler.hpp"
#include "tasks/successor_pool.hpp"
#include "tasks/task.hpp"
#include "weir/base/system/prefetch.hpp"
#include "weir/runtime/engine.hpp"
#include "weir/runtime/trace.hpp"

namespace weir::runtime {

/// Keeps a task from starting before all its edges are written: `task::pending` starts
/// with this value, each predecessor that ends takes 1 away, and the submitter at last
/// takes away what is left of the guard.
inline constexpr std::int32_t wiring_guard = 1 << 30;

/// Tasks with consecutive ids whose records lie outside the slots of the window: one
/// replay in flight.
struct live_batch {
  task* tasks = nullptr;
  task_id first = 0;
  task_id end = 0;              ///< one past the last id
  live_batch* newer = nullptr;  ///< set by the window
};

/// Is told when the window retires tasks of a batch.
class batch_owner {
 public:
  /// Task number `index` of the batch failed or was poisoned, and is being retired.
  /// `root` is the failed task that it depends on, or itself.
  virtual void retire_failed(live_batch& batch, std::uint32_t index, task_id root) = 0;
  /// All tasks of the oldest batch have been retired: the window has forgotten it.
  virtual void retire_batch(live_batch& batch) = 0;

 protected:
  batch_owner() = default;
  ~batch_owner() = default;
};

/// The window of tasks in flight.
///
/// Ids count up from the first task of the engine. `oldest() <= id < next()` holds for
/// the tasks in flight, at most `capacity()` of them. The record of a task that was
/// submitted alone lies in slot `id % capacity()`; the record of a replayed task lies in
/// its batch.
///
/// A task passes through these states, and only the last step belongs to this class:
/// prepared and wired by the submitter, published, run by a worker, ended (its successors
/// know), retired. Retirement goes in the order of ids. It gives back what the task held:
/// its accesses in the map, its blocks of successors, its place in a group, and with the
/// step of `oldest()` its record. A slot is therefore never used again before its task
/// has ended.
///
/// Memory order: a worker ends a task by storing `task::over` into `task::successors`
/// with release order after its last access to the record. `task::ended` and
/// `task::is_spent` load it with acquire order. The submitter may therefore write a
/// record for which one of them was true without further synchronization.
/// @threads{the submitter; the counters are safe from any thread}
class task_window {
 public:
  /// `workers` may be constructed later than the window: it is used only when tasks
  /// exist.
  task_window(const engine_options& options, dependency_map& map, successor_pool& blocks,
              exclusion_groups& groups, failure_log& failures, trace& tracer,
              scheduler& workers);
  task_window(const task_window&) = delete;
  task_window& operator=(const task_window&) = delete;

  [[nodiscard]] std::uint32_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] task_id next() const noexcept { return next_; }
  [[nodiscard]] task_id oldest() const noexcept { return oldest_; }
  [[nodiscard]] bool empty() const noexcept { return oldest_ == next_; }
  /// Records and further data of the tasks that are submitted alone.
  [[nodiscard]] const task_batch& slots() const noexcept { return slots_; }
  /// Returns true if replays are in flight. Not every record lies in a slot then.
  [[nodiscard]] bool has_batches() const noexcept { return oldest_batch_ != nullptr; }

  /// The record of a task in flight. @pre oldest() <= id && id < next()
  [[nodiscard]] task& find(task_id id) noexcept {
    for (live_batch* b = oldest_batch_; b != nullptr; b = b->newer) {
      if (id >= b->first && id < b->end) {
        return b->tasks[id - b->first];
      }
    }
    return slots_.tasks[id & mask_];
  }
  [[nodiscard]] bool has_ended(task_id id) noexcept {
    return id < oldest_ || (id < next_ && find(id).ended());
  }

  /// Returns true if one more task with this many accesses fits and no ended tasks are
  /// due to be retired.
  [[nodiscard]] bool has_space(std::size_t accesses) const noexcept {
    return next_ % submissions_per_look != 0 && fits(accesses);
  }
  /// Returns true if one more task with this many accesses fits.
  [[nodiscard]] bool fits(std::size_t accesses) const noexcept {
    return !is_full(1) && map_.space() >= accesses;
  }
  /// Retires tasks, and runs tasks if that is not enough, until this many more fit, with
  /// this many accesses in total.
  void make_space(std::uint32_t tasks, std::size_t accesses);

  /// Fills the record of task `next()`, which is in flight once `advance` is called.
  /// @pre the window is not full
  task& prepare(const char* name, task::call_fn fn, const void* captures,
                std::size_t captured_bytes, const submit_options& with);
  /// The prepared task is in flight.
  void advance() noexcept {
    ++next_;
    tally<std::uint64_t>(submitted_);
  }
  /// Counts a call in place of a task.
  void count_call() noexcept { tally<std::uint64_t>(submitted_); }
  /// Tasks that are prepared from now on belong to this batch, whose records are the
  /// slots: it differs from `slots()` in the argument that kernels find.
  void use_batch(const task_batch& batch) noexcept { batch_ = &batch; }
  /// Tasks that are prepared from now on have this tag.
  void use_tag(std::uint16_t tag) noexcept { tag_ = tag; }
  /// Returns the tag of the next task.
  [[nodiscard]] std::uint16_t tag() const noexcept { return tag_; }

  /// Says who owns the batches that are added.
  void set_batch_owner(batch_owner& owner) noexcept { owner_ = &owner; }
  /// The tasks of a batch are in flight, with the ids from `next()` on. The batch stays
  /// where it is until its owner is told of its retirement.
  void add_batch(live_batch& batch) noexcept;

  /// Begins the history of a task that is traced.
  void begin_history(task& t, task_history& h, std::int64_t now) const;

  /// Retires tasks that have ended, oldest first, until one has not. Of the tasks that
  /// were submitted alone at most `max_tasks` are retired.
  void retire(std::uint32_t max_tasks);
  void retire_ended() { retire(capacity_); }
  /// Runs tasks on this thread until the task has ended, then retires what has ended.
  void run_until_ended(task_id id);
  void run_oldest() { run_until_ended(oldest_); }

  /// Tasks of all kinds so far.
  [[nodiscard]] const std::atomic<std::uint64_t>& submitted() const noexcept {
    return submitted_;
  }
  /// Submissions that found the window full.
  [[nodiscard]] const std::atomic<std::uint64_t>& window_stalls() const noexcept {
    return window_stalls_;
  }
  /// Submissions that found too little room for their accesses.
  [[nodiscard]] const std::atomic<std::uint64_t>& access_stalls() const noexcept {
    return access_stalls_;
  }

 private:
  /// Ended tasks are looked for once in so many submissions.
  static constexpr std::uint32_t submissions_per_look = 32;
  /// The records that will be used so many submissions later are prefetched, because a
  /// worker wrote them last.
  static constexpr std::uint64_t prefetch_distance = 8;

  [[nodiscard]] bool is_full(std::uint32_t tasks) const noexcept {
    return next_ - oldest_ + tasks > capacity_;
  }
  void wait_for_space(std::uint32_t tasks, std::size_t accesses);
  /// Runs tasks until about this many more fit into the window.
  void run_until_not_full(std::uint32_t tasks);
  void retire_one(task& t) {
    if (!t.is_spent()) {
      clean_up(t);
    }
    ++oldest_;
  }
  void clean_up(task& t);
  /// Retires the tasks of the oldest batch. Returns false if one of them has not ended.
  bool retire_oldest_batch();

  std::uint32_t capacity_;
  std::uint64_t mask_;  ///< capacity - 1
  task_id next_;
  task_id oldest_;
  task_records records_;
  task_batch slots_;
  const task_batch* batch_ = &slots_;          ///< of the next task
  std::uint16_t tag_ = 0;                      ///< of the next task
  std::unique_ptr<task_history[]> histories_;  ///< one per slot, if tasks are traced
  live_batch* oldest_batch_ = nullptr;
  live_batch* newest_batch_ = nullptr;
  batch_owner* owner_ = nullptr;
  dependency_map& map_;
  successor_pool& blocks_;
  exclusion_groups& groups_;
  failure_log& failures_;
  trace& tracer_;
  scheduler& workers_;
  std::atomic<std::uint64_t> submitted_{0};
  std::atomic<std::uint64_t> window_stalls_{0};
  std::atomic<std::uint64_t> access_stalls_{0};
};

/// Fills the slot of the next task. A slot some tasks ahead is prefetched, because its
/// cache lines may lie in the cache of the worker that ran the task before it.
[[gnu::always_inline]] inline task& task_window::prepare(const char* name,
                                                         task::call_fn fn,
                                                         const void* captures,
                                                         std::size_t captured_bytes,
                                                         const submit_options& with) {
  const std::size_t index = next_ & mask_;
  const std::size_t ahead = (next_ + prefetch_distance) & mask_;
  prefetch_to_write(&slots_.tasks[ahead]);
  prefetch_to_write(&slots_.successors[ahead]);
  task& t = slots_.tasks[index];
  t.id = next_;
  t.fn = fn;
  t.name = name;
  t.urgent = with.urgent;
  t.exclusive = false;
  t.though_poisoned = with.though_poisoned;
  t.worker = with.worker;
  t.tag = tag_;
  t.root.store(0, std::memory_order_relaxed);
  t.pending.store(wiring_guard, std::memory_order_relaxed);
  t.batch = batch_;
  t.history = nullptr;
  if (tracer_.recording()) {
    begin_history(t, histories_[index], now_ns());
  }
  if (captured_bytes != 0) {
    std::memcpy(slots_.values_of(index), captures, captured_bytes);
  }
  // No other thread can reach the slot before an edge or a queue leads to it, and both
  // publish it with release order.
  t.successors.store(0, std::memory_order_relaxed);
  return t;
}

}  // namespace weir::runtime
