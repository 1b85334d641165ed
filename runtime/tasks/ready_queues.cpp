// SPDX-License-Identifier: Apache-2.0
/// @file
/// Ready queues over moodycamel::ConcurrentQueue, one producer token each.
#include "tasks/ready_queues.hpp"

#include <concurrentqueue/concurrentqueue.h>

namespace weir::runtime {

struct ready_queues::shared_queue {
  explicit shared_queue(std::uint32_t window) : items(window, 1, 0), owner(items) {}
  moodycamel::ConcurrentQueue<task*> items;
  moodycamel::ProducerToken owner;
};

ready_queues::ready_queues(unsigned workers, std::uint32_t window) {
  if (workers == 1) {
    ring_.resize(window);
    return;
  }
  for (unsigned w = 0; w < workers; ++w) {
    queues_.push_back(std::make_unique<shared_queue>(window));
  }
}

ready_queues::~ready_queues() = default;

void ready_queues::push(unsigned worker, task& t) {
  if (queues_.empty()) {
    ring_[tail_++ & (ring_.size() - 1)] = &t;
    return;
  }
  shared_queue& own = *queues_[worker];
  own.items.enqueue(own.owner, &t);
}

task* ready_queues::pop(unsigned worker) {
  if (queues_.empty()) {
    return head_ == tail_ ? nullptr : ring_[head_++ & (ring_.size() - 1)];
  }
  const std::size_t count = queues_.size();
  for (std::size_t i = 0; i < count; ++i) {
    shared_queue& from = *queues_[(worker + i) % count];
    task* t = nullptr;
    if (from.items.try_dequeue_from_producer(from.owner, t)) {
      return t;
    }
  }
  return nullptr;
}

bool ready_queues::empty() const noexcept {
  if (queues_.empty()) {
    return head_ == tail_;
  }
  for (const auto& queue : queues_) {
    if (queue->items.size_approx() != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace weir::runtime
