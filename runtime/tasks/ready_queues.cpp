// SPDX-License-Identifier: Apache-2.0
/// @file
/// Ready queues over moodycamel::ConcurrentQueue. The queue of a worker has one producer
/// token. Urgent tasks and those sent to a worker come from any thread and are few.
#include "tasks/ready_queues.hpp"

#include <algorithm>
#include <array>
#include <thread>

#include <concurrentqueue/concurrentqueue.h>

namespace weir::runtime {
namespace {

/// Largest number of tasks that are moved at once. Looking at the queue of another worker
/// takes a cache line from it, so one look should bring several tasks.
constexpr std::size_t max_moved = 16;
/// Queues with up to `few` tasks are left to the submitter, if the scope says so; those
/// with at least `many` are worth a look even for tiny kernels.
constexpr std::size_t few = 15;
constexpr std::size_t many = 64;

}  // namespace

/// The queue of one worker. Its producer token gives the owner a queue of its own inside.
/// Others take from the same inner queue, so tasks leave it in the order in which they
/// were pushed.
struct ready_queues::shared_queue {
  explicit shared_queue(std::uint32_t window) : items(window, 1, 0), owner(items) {}
  /// Called by the owner. Its memory was allocated for the whole window, so more is
  /// rarely needed. If there is none, it waits until others have taken tasks from the
  /// queue: a task that is left out would never run.
  void push(task* t) {
    while (!items.enqueue(owner, t)) {
      std::this_thread::yield();
    }
  }
  moodycamel::ConcurrentQueue<task*> items;
  moodycamel::ProducerToken owner;
};

/// The queues that any thread may push to.
struct ready_queues::special_queues {
  /// A queue that any thread may push to. `count` goes up before the task can be taken,
  /// so that a queue with a task never looks empty.
  struct open_queue {
    std::atomic<std::int32_t> count{0};
    moodycamel::ConcurrentQueue<task*> items{32};

    /// Returns false if there is no memory for the task; nothing has happened then.
    [[nodiscard]] bool try_push(task& t) {
      count.fetch_add(1, std::memory_order_seq_cst);
      const bool done = items.enqueue(&t);
      if (!done) {
        count.fetch_sub(1, std::memory_order_relaxed);
      }
      return done;
    }
    [[nodiscard]] task* pop() {
      task* t = nullptr;
      if (count.load(std::memory_order_relaxed) != 0 && items.try_dequeue(t)) {
        count.fetch_sub(1, std::memory_order_relaxed);
      }
      return t;
    }
  };

  explicit special_queues(unsigned workers) : sent(workers), sent_urgent(workers) {}
  open_queue urgent;
  std::vector<open_queue> sent;  ///< to each worker
  std::vector<open_queue> sent_urgent;

  /// Takes an urgent task: one sent to this worker, one for any worker, or one sent to
  /// another worker, in this order.
  [[nodiscard]] task* pop_urgent(unsigned worker) {
    task* t = sent_urgent[worker].pop();
    if (t == nullptr) {
      t = urgent.pop();
    }
    for (std::size_t i = 1; t == nullptr && i < sent_urgent.size(); ++i) {
      t = sent_urgent[(worker + i) % sent_urgent.size()].pop();
    }
    return t;
  }
};

ready_queues::ready_queues(unsigned workers, unsigned hinted, std::uint32_t window)
    : window_(window), workers_(workers), hinted_(hinted) {
  if (workers == 1) {
    // Allocated now, so that a run allocates nothing later. Few programs have urgent
    // tasks, whose ring is allocated at its first use.
    ring_.allocate(window);
    return;
  }
  special_ = std::make_unique<special_queues>(workers);
  for (unsigned w = 0; w < workers; ++w) {
    queues_.push_back(std::make_unique<shared_queue>(window));
  }
}

ready_queues::~ready_queues() = default;

/// The queue depends on the task: one for its wanted worker, the urgent ones, or the
/// worker's own. Without memory for the other queues, a task goes to the worker's own.
void ready_queues::push(unsigned worker, task& t) {
  if (queues_.empty()) {
    (t.urgent ? urgent_ring_ : ring_).push(t, window_);
    return;
  }
  const bool done = t.worker != submit_options::anywhere
                        ? try_send(t.worker % hinted_, t)
                        : t.urgent && special_->urgent.try_push(t);
  if (!done) {
    queues_[worker]->push(&t);
  }
}

// Unlike `push`, it ignores the worker that the task asks for. A task must not be lost,
// so it is tried until other threads have freed memory.
void ready_queues::send(unsigned worker, task& t) {
  while (!try_send(worker, t)) {
    std::this_thread::yield();
  }
}

bool ready_queues::try_send(unsigned worker, task& t) {
  return (t.urgent ? special_->sent_urgent : special_->sent)[worker].try_push(t);
}

/// Takes up to half of a queue, so that tasks spread over idle workers in a few steps.
/// The first task is returned and the others go to the taker's queue.
ready_queues::taken ready_queues::take_half(unsigned worker, unsigned victim,
                                            std::size_t least) {
  shared_queue& from = *queues_[victim];
  // The size may be out of date; taking may then give fewer tasks or none.
  const std::size_t there = from.items.size_approx();
  if (there < least) {
    return {};
  }
  std::array<task*, max_moved> got;
  const std::size_t count = from.items.try_dequeue_bulk_from_producer(
      from.owner, got.data(), std::min(got.size(), (there + 1) / 2));
  if (count == 0) {
    return {};
  }
  shared_queue& own = *queues_[worker];
  for (std::size_t i = 1; i < count; ++i) {
    prefetch_to_write(got[i]);
    own.push(got[i]);
  }
  return {got[0], static_cast<unsigned>(count - 1)};
}

/// Takes the next task for a worker. The order is: urgent tasks, tasks that were sent to
/// this worker, its own queue, half of another worker's queue, and, as the last resort, a
/// task that was sent to another worker. `range` can end the search earlier. A single
/// worker has only two plain rings.
ready_queues::taken ready_queues::pop(unsigned worker, scope range) {
  if (queues_.empty()) {
    task* t = urgent_ring_.pop();
    return {t != nullptr ? t : ring_.pop()};
  }
  // Each look costs a load if the queue is empty.
  task* t = special_->pop_urgent(worker);
  if (t == nullptr) {
    t = special_->sent[worker].pop();
  }
  if (t != nullptr) {
    return {t};
  }
  shared_queue& own = *queues_[worker];
  if (own.items.try_dequeue_from_producer(own.owner, t)) {
    return {t};
  }
  if (range == scope::own) {
    return {};
  }
  for (unsigned i = 1; i < workers_; ++i) {
    const unsigned victim = (worker + i) % workers_;
    // Queue 0 is that of the submitter, who is about to run those few tasks itself.
    const std::size_t least = range == scope::surplus                     ? many
                              : range == scope::unless_few && victim == 0 ? few + 1
                                                                          : 1;
    const taken some = take_half(worker, victim, least);
    if (some.first != nullptr) {
      return some;
    }
  }
  if (range == scope::surplus) {
    return {};
  }
  // Tasks that were sent to other workers come last: those workers are preferred for
  // them.
  t = nullptr;
  for (unsigned i = 1; t == nullptr && i < workers_; ++i) {
    t = special_->sent[(worker + i) % workers_].pop();
  }
  return {t};
}

// The size is a guess while others push and take.
bool ready_queues::empty(unsigned worker) const noexcept {
  return queues_[worker]->items.size_approx() == 0;
}

/// The counts of open queues are loaded with sequentially consistent order, because the
/// last look of a worker before it sleeps relies on it (see scheduler).
bool ready_queues::empty() const noexcept {
  if (queues_.empty()) {
    return ring_.empty() && urgent_ring_.empty();
  }
  if (special_->urgent.count.load(std::memory_order_seq_cst) != 0) {
    return false;
  }
  for (unsigned w = 0; w < workers_; ++w) {
    if (!empty(w) || special_->sent[w].count.load(std::memory_order_seq_cst) != 0 ||
        special_->sent_urgent[w].count.load(std::memory_order_seq_cst) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace weir::runtime
