// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads by threads, for systems that do not allow io_uring.
///
/// The threads belong to the device and are shared by the queues of its readers. Each
/// queue collects the ends of its own reads.
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "block/queued_reads.hpp"

namespace weir::storage {

/// A fixed number of threads that carry out tasks in the order in which they were added.
///
/// The destructor lets the threads finish all tasks that were added, because each of
/// them writes into memory that its owner waits for.
class read_threads {
 public:
  explicit read_threads(unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      threads_.emplace_back([this] { work(); });
    }
  }
  read_threads(const read_threads&) = delete;
  read_threads& operator=(const read_threads&) = delete;
  // `threads_` holds `std::jthread`s, which are joined when they are destroyed.
  ~read_threads() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    threads_.clear();
  }
  /// Adds a task and wakes a thread for it.
  void add(std::function<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    changed_.notify_one();
  }

 private:
  /// Carries out tasks until the object is destroyed and no task is left.
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      // A stop ends a thread only when no task is left.
      changed_.wait(lock, [&] { return stopped_ || !tasks_.empty(); });
      if (tasks_.empty()) {
        return;
      }
      const auto task = std::move(tasks_.front());
      tasks_.pop_front();
      // The task runs without the lock, so that other threads can take the next one.
      lock.unlock();
      task();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool stopped_ = false;
  std::vector<std::jthread> threads_;
};

/// The counterpart is `kernel_queue`. The result of a read is the number of bytes, or
/// -errno, as io_uring gives it.
namespace {

/// Reads of one file, carried out by shared threads.
class thread_queue final : public queued_reads {
 public:
  thread_queue(std::shared_ptr<read_threads> threads, int file)
      : threads_(std::move(threads)), file_(file) {}

  // The task refers to this queue. Its owner waits for each read that it has started
  // before it destroys the queue.
  void start(std::size_t number, std::uint64_t offset, mutable_bytes to) override {
    threads_->add([this, number, offset, to] {
      const ssize_t n = ::pread(file_, to.data(), to.size(), static_cast<off_t>(offset));
      const ended_read e{number, n < 0 ? -errno : n};
      const std::lock_guard lock(mutex_);
      ended_reads_.push_back(e);
      // Notifies while the lock is held: afterwards the queue may be destroyed.
      changed_.notify_one();
    });
  }
  ended_read wait() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !ended_reads_.empty(); });
    const ended_read e = ended_reads_.front();
    ended_reads_.pop_front();
    return e;
  }

 private:
  std::shared_ptr<read_threads> threads_;
  int file_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<ended_read> ended_reads_;
};

}  // namespace

/// Starts the threads, which live until the last queue over them is destroyed.
std::shared_ptr<read_threads> start_read_threads(unsigned count) {
  return std::make_shared<read_threads>(count);
}

std::unique_ptr<queued_reads> queue_on_threads(std::shared_ptr<read_threads> threads,
                                               int descriptor) {
  return std::make_unique<thread_queue>(std::move(threads), descriptor);
}

}  // namespace weir::storage
