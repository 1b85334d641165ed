// SPDX-License-Identifier: Apache-2.0
/// @file
/// The tasks of one engine that end later, for handles that may outlive the engine, and
/// the engine whose tasks a thread runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "weir/runtime/engine.hpp"

namespace weir::runtime {

class scheduler;

/// A place of a scheduler at which a thread runs tasks.
struct worker_place {
  scheduler* owner = nullptr;  ///< null: the thread runs no tasks
  unsigned worker = 0;
};

/// Says, for its own life, that this thread runs tasks at a place of a scheduler. The
/// innermost object counts, because a kernel may use another engine.
/// @threads{belongs to the thread that made it}
class current_worker {
 public:
  current_worker(scheduler& owner, unsigned worker) noexcept : outer_(now_) {
    now_ = {&owner, worker};
  }
  ~current_worker() { now_ = outer_; }
  current_worker(const current_worker&) = delete;
  current_worker& operator=(const current_worker&) = delete;

  [[nodiscard]] static worker_place now() noexcept { return now_; }

 private:
  worker_place outer_;
  inline static thread_local worker_place now_{};
};

/// A task that ends later. Two events end it, in any order: its kernel returns, and it is
/// completed. Whoever brings the second event finishes the task.
///
/// `state` holds the number of the task above three bits. The bit `claimed` gives the
/// outcome to one of several threads that complete the task. The bits `answered` and
/// `returned` are set by read-modify-write operations with acquire and release order, so
/// exactly one of the two threads sees the other's bit, and sees what the other has
/// written before.
struct alignas(64) completion_slot {
  static constexpr std::uint64_t claimed = 1;   ///< one thread writes the outcome
  static constexpr std::uint64_t answered = 2;  ///< the outcome is there
  static constexpr std::uint64_t returned = 4;  ///< the kernel has returned
  static constexpr unsigned number_shift = 3;

  std::atomic<std::uint64_t> state{0};
  task* waits = nullptr;
  completion_slot* next = nullptr;  ///< in the list of answers
  // Of traced tasks alone.
  bool traced = false;
  unsigned worker = 0;  ///< that ran the kernel
  std::int64_t started = 0;
  std::int64_t kernel_ended = 0;
  std::int64_t completed = 0;
  result<void> outcome;
};

/// One slot for each place of the window: numbers of tasks in flight differ modulo its
/// size. The table belongs to the engine and to all handles; the engine closes it when it
/// ends, and no call reaches the engine afterwards.
/// @threads{safe from any thread, unless a comment says otherwise}
class completion_table : public std::enable_shared_from_this<completion_table> {
 public:
  completion_table(scheduler& owner, std::uint32_t window)
      : owner_(owner),
        mask_(window - 1),
        slots_(std::make_unique<completion_slot[]>(window)) {}

  /// Returns the slot of a task.
  [[nodiscard]] completion_slot& slot_of(task_id id) noexcept {
    return slots_[id & mask_];
  }
  /// Completes a task; see `weir::runtime::complete`.
  [[nodiscard]] result<void> complete(task_id id, const char* name,
                                      result<void>&& outcome);
  /// Returns true if a task waits for its completion.
  [[nodiscard]] bool awaited(task_id id) noexcept;
  /// Lets no further call reach the engine, and waits for those that are inside.
  void close() noexcept;

 private:
  /// Keeps the engine alive while a call from another thread uses it.
  class visit;
  /// Returns the slot if this thread is the one that completes the task, else null.
  [[nodiscard]] completion_slot* claim(task_id id) noexcept;

  scheduler& owner_;
  std::uint64_t mask_;
  std::unique_ptr<completion_slot[]> slots_;
  /// Twice the number of calls inside the engine, and 1 if the table is closed.
  std::atomic<std::uint64_t> visits_{0};
};

}  // namespace weir::runtime
