// SPDX-License-Identifier: Apache-2.0
/// @file
/// Ready tasks: one queue per worker, first in, first out; who has none takes from the
/// others.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tasks/task.hpp"

namespace weir::runtime {

/// @threads{push(w), pop(w): worker w; empty: any thread}
class ready_queues {
 public:
  /// A task is in at most one queue, so `window` bounds their content.
  ready_queues(unsigned workers, std::uint32_t window);
  ~ready_queues();
  ready_queues(const ready_queues&) = delete;
  ready_queues& operator=(const ready_queues&) = delete;

  void push(unsigned worker, task& t);
  /// Oldest of the worker's own queue, else of another's, else nullptr.
  [[nodiscard]] task* pop(unsigned worker);
  /// May be out of date as soon as it returns; never true while a push that happened
  /// before is unpopped.
  [[nodiscard]] bool empty() const noexcept;

 private:
  struct shared_queue;
  // One worker needs neither atomics nor stealing: a ring.
  std::vector<task*> ring_;
  std::uint32_t head_ = 0;
  std::uint32_t tail_ = 0;
  std::vector<std::unique_ptr<shared_queue>> queues_;
};

}  // namespace weir::runtime
