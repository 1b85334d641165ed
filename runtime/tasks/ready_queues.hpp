// SPDX-License-Identifier: Apache-2.0
/// @file
/// Queues of ready tasks, one per worker, first in, first out. A worker without tasks
/// takes some from the queue of another one, or is handed one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tasks/task.hpp"

namespace weir::runtime {

/// @threads{push(w), pop(w): worker w; send, empty: any thread}
class ready_queues {
 public:
  /// A task is in at most one queue, so `window` bounds the length of each. The worker
  /// that a task asks for is taken modulo `hinted`, the number of workers that never
  /// leave.
  ready_queues(unsigned workers, unsigned hinted, std::uint32_t window);
  ~ready_queues();
  ready_queues(const ready_queues&) = delete;
  ready_queues& operator=(const ready_queues&) = delete;

  void push(unsigned worker, task& t);
  /// Sends the task to a worker. @pre there are several
  void send(unsigned worker, task& t);
  struct taken {
    task* first = nullptr;  ///< null if there was none
    unsigned moved = 0;     ///< further tasks that were moved into the worker's own queue
  };
  /// Which tasks may be taken, beside urgent ones and those sent to the worker.
  enum class scope {
    any,
    unless_few,  ///< from the submitter's queue only if it has more than a few tasks
    own,         ///< from the worker's own queue only
    surplus,     ///< from the worker's own queue, and from others that have many tasks
  };
  /// Takes the first task that there is of: urgent ones, beginning with those sent to the
  /// worker; others sent to it; its own queue; the queue of another worker, of which up
  /// to half moves to the worker's own queue; tasks sent to other workers.
  [[nodiscard]] taken pop(unsigned worker, scope range = scope::any);
  /// May be out of date as soon as it returns; never true while a push that happened
  /// before is unpopped.
  [[nodiscard]] bool empty() const noexcept;
  /// Says the same of one worker's own queue.
  [[nodiscard]] bool empty(unsigned worker) const noexcept;

 private:
  /// A queue that one thread uses alone.
  class ring {
   public:
    /// Allocates the memory for as many tasks.
    void allocate(std::uint32_t window) { tasks_.resize(window); }
    void push(task& t, std::uint32_t window) {
      if (tasks_.empty()) {
        allocate(window);
      }
      tasks_[tail_++ & (tasks_.size() - 1)] = &t;
    }
    [[nodiscard]] task* pop() {
      return empty() ? nullptr : tasks_[head_++ & (tasks_.size() - 1)];
    }
    [[nodiscard]] bool empty() const noexcept { return head_ == tail_; }

   private:
    std::vector<task*> tasks_;
    std::uint32_t head_ = 0;
    std::uint32_t tail_ = 0;
  };
  struct shared_queue;
  struct special_queues;

  /// Sends the task, unless there is no memory for it. Returns whether it was sent.
  [[nodiscard]] bool try_send(unsigned worker, task& t);
  /// Takes up to half of the queue of `victim`, if it has at least `least` tasks.
  [[nodiscard]] taken take_half(unsigned worker, unsigned victim, std::size_t least);

  std::uint32_t window_;
  unsigned workers_;
  unsigned hinted_;
  // One worker needs neither atomics nor stealing.
  ring ring_;
  ring urgent_ring_;
  std::vector<std::unique_ptr<shared_queue>> queues_;
  std::unique_ptr<special_queues> special_;
};

/// A place for one task, where a worker that looks for a task is handed one. Fewer cache
/// lines travel than through a queue.
/// @threads{open, full, close: the owner; offer: any thread}
class inbox {
 public:
  void open() noexcept { task_.store(empty_marker(), std::memory_order_relaxed); }
  [[nodiscard]] bool full() const noexcept {
    return task_.load(std::memory_order_relaxed) != empty_marker();
  }
  /// Returns the task that was handed over, or null.
  [[nodiscard]] task* close() noexcept {
    task* const t = task_.exchange(nullptr, std::memory_order_acquire);
    return t == empty_marker() ? nullptr : t;
  }
  /// Hands a task over. Returns false if the inbox is closed or full.
  [[nodiscard]] bool offer(task& t) noexcept {
    task* expected = empty_marker();
    return task_.load(std::memory_order_relaxed) == expected &&
           task_.compare_exchange_strong(expected, &t, std::memory_order_release,
                                         std::memory_order_relaxed);
  }

 private:
  /// Stands for "open and empty"; null stands for "closed".
  [[nodiscard]] static task* empty_marker() noexcept {
    static task none;
    return &none;
  }
  std::atomic<task*> task_{nullptr};
};

}  // namespace weir::runtime
