// SPDX-License-Identifier: Apache-2.0
/// @file
/// Which worker runs which task, and which tasks wait for which, for a thread that
/// watches.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tasks/task.hpp"

namespace weir::runtime {

/// The tasks in flight, and some of the predecessors of each. A place is emptied before
/// it is filled again, and each field is stored with release order. A reader that finds
/// the same task id before and after has therefore read data of this task.
/// @threads{add, add_wait, submitter_waits: the submitter; runs: the worker;
/// awaits_completion, ended, describe_*: any thread}
class wait_board {
 public:
  /// Ids of tasks in flight differ modulo `window`, a power of two.
  wait_board(std::uint32_t window, unsigned workers)
      : mask_(window - 1),
        places_(std::make_unique<place[]>(window)),
        workers_(workers) {}

  /// Adds a new task. `name` outlives the board.
  void add(task_id id, const char* name) noexcept;
  /// Notes that the task waits for an older one.
  void add_wait(task_id id, task_id before) noexcept;
  /// Notes that the task waits for its completion once its kernel has returned.
  void awaits_completion(task_id id) noexcept {
    places_[id & mask_].postponed.store(true, std::memory_order_release);
  }
  void ended(task_id id) noexcept {
    places_[id & mask_].id.store(0, std::memory_order_release);
  }

  /// Notes what the worker runs from now on; null for nothing.
  void runs(unsigned worker, const task* t) noexcept;
  /// Notes what the submitter waits for; null for nothing.
  void submitter_waits(const task* t) noexcept;

  /// Says what each worker runs, and what the submitter waits for.
  [[nodiscard]] std::string describe_workers() const;
  /// Says which tasks do not run, oldest first, and what each of them waits for.
  [[nodiscard]] std::string describe_waits() const;

 private:
  static constexpr std::uint32_t max_waits =
      6;  ///< predecessors that are kept of one task
  struct place {
    std::atomic<task_id> id{0};  ///< 0: no task, or it has ended
    std::atomic<const char*> name{nullptr};
    std::atomic<bool> postponed{false};
    std::atomic<std::uint32_t> waits{0};
    std::array<std::atomic<task_id>, max_waits> before{};
  };

  /// Names outlive the board.
  struct alignas(64) current_task {
    std::atomic<task_id> id{0};
    std::atomic<const char*> name{nullptr};
    std::atomic<std::int64_t> since{0};
  };

  /// Returns `task N "name"`, or an empty string if the task has ended.
  [[nodiscard]] std::string named(task_id id) const;
  /// Says what the task waits for.
  [[nodiscard]] std::string reasons_of(const place& p) const;

  std::uint64_t mask_;
  std::unique_ptr<place[]> places_;
  std::vector<current_task> workers_;
  current_task awaited_;
};

}  // namespace weir::runtime
