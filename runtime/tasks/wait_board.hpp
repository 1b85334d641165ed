// SPDX-License-Identifier: Apache-2.0
/// @file
/// Who runs what and who waits for whom, for who watches from another thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tasks/task.hpp"

namespace weir::runtime {

/// The tasks in flight and some of those that each was told to wait for. A place is
/// emptied before it is filled again, and every field is published, so that who finds the
/// same task before and after has read what belongs to it.
/// @threads{add, add_wait, submitter_waits: the submitter; runs: the worker; ended,
/// describe_*: any thread}
class wait_board {
 public:
  /// Ids of tasks in flight differ modulo `window`, a power of two.
  wait_board(std::uint32_t window, unsigned workers)
      : mask_(window - 1),
        places_(std::make_unique<place[]>(window)),
        workers_(workers) {}

  /// A new task. `name` outlives the board.
  void add(task_id id, const char* name) noexcept;
  /// The task waits for another one, which is older.
  void add_wait(task_id id, task_id before) noexcept;
  void ended(task_id id) noexcept {
    places_[id & mask_].id.store(0, std::memory_order_release);
  }

  /// From now on the worker runs this, or nothing: null.
  void runs(unsigned worker, const task* t) noexcept;
  /// Likewise what the submitter waits for.
  void submitter_waits(const task* t) noexcept;

  /// What each worker runs, and what the submitter waits for.
  [[nodiscard]] std::string describe_workers() const;
  /// The oldest tasks that do not run, and for which live ones each of them waits.
  [[nodiscard]] std::string describe_waits() const;

 private:
  static constexpr std::uint32_t most_waits = 6;  ///< of one task that are kept
  struct place {
    std::atomic<task_id> id{0};  ///< 0: none, or it has ended
    std::atomic<const char*> name{nullptr};
    std::atomic<std::uint32_t> waits{0};
    std::array<std::atomic<task_id>, most_waits> before{};
  };

  /// Names outlive the board.
  struct alignas(64) current_task {
    std::atomic<task_id> id{0};
    std::atomic<const char*> name{nullptr};
    std::atomic<std::int64_t> since{0};
  };

  /// "task N "name"", or nothing if it has ended.
  [[nodiscard]] std::string named(task_id id) const;
  /// What it waits for, in words.
  [[nodiscard]] std::string reasons_of(const place& p) const;

  std::uint64_t mask_;
  std::unique_ptr<place[]> places_;
  std::vector<current_task> workers_;
  current_task awaited_;
};

}  // namespace weir::runtime
