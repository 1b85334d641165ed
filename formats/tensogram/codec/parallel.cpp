// SPDX-License-Identifier: Apache-2.0
/// @file
/// A pool of threads for loops over pieces. The threads stay between calls, because
/// starting one takes about a tenth of a millisecond, a fifth of the time of packing a
/// million values.
///
/// A caller takes idle helpers out of the pool, so each helper has one caller at a time.
/// The caller does the work itself too. When it is finished, it withdraws its request
/// from helpers that have not begun, and waits for the others.
///
///          ask               helper begins
///   idle ------> asked -----------------> running
///    ^             |                        |
///    |   withdrawn |          work has ended |
///    +-------------+------------------------+
///
/// Only the caller moves a helper from `idle` to `asked`; the two arrows out of `asked`
/// are a race that compare-and-exchange decides. A helper reads `work_` only in
/// `running`, and the caller does not leave `finish` while a helper runs, so `work_` may
/// refer to the stack of the caller.
#include "tensogram/codec/parallel.hpp"

#include <sched.h>
#include <unistd.h>

#include <memory>
#include <new>
#include <system_error>

namespace weir::formats {

namespace {

// State of a helper. The caller sets `asked`. Then either the helper changes that to
// `running`, or the caller takes it back to `idle`; both use compare-and-exchange, so one
// of them wins.
enum state : std::uint32_t { idle, asked, running };

/// Waits until `is` differs from `from`. Spins for some microseconds, because the next
/// loop of a call usually comes soon, and then sleeps in the kernel. The acquire loads
/// make the writes of the other thread visible.
void wait_while(const std::atomic<std::uint32_t>& is, std::uint32_t from) noexcept {
  constexpr int looks = 500;
  for (int i = 0; i < looks; ++i) {
    if (is.load(std::memory_order_acquire) != from) {
      return;
    }
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  is.wait(from, std::memory_order_acquire);
}

/// One thread and the work that it is asked to do. Only the caller that took it out of
/// the pool asks it.
class helper {
 public:
  // The thread is detached and never ends. It inherits the processors on which the
  // calling thread may run, and `leave` chooses among them.
  helper() {
    if (::sched_getaffinity(0, sizeof allowed_, &allowed_) != 0) {
      CPU_ZERO(&allowed_);
    }
    std::thread thread([this] { serve(); });
    thread_ = thread.native_handle();
    thread.detach();
  }

  /// Asks the helper to call `work`. The release store publishes work_ to the helper.
  void ask(const std::function<void()>& work) noexcept {
    work_ = &work;
    is_.store(asked, std::memory_order_release);
    is_.notify_one();
  }
  /// Withdraws the request if the helper has not begun, and waits for its end otherwise.
  /// Afterwards the helper does not refer to the caller's work any more.
  void finish() noexcept {
    std::uint32_t expected = asked;
    if (is_.compare_exchange_strong(expected, idle, std::memory_order_acq_rel)) {
      // The helper was not fast enough: the kernel probably wanted to run it on this
      // processor, which was busy with the caller.
      leave(::sched_getcpu());
      return;
    }
    while (is_.load(std::memory_order_acquire) == running) {
      wait_while(is_, running);
    }
    // The helper ran on the processor of the caller, so the two ran one after the other.
    if (const int here = ::sched_getcpu(); ran_on_ == here) {
      leave(here);
    }
  }

 private:
  /// Excludes `processor` from those on which the helper may run. The kernel often wakes
  /// a thread on the processor of the waker even if another one idles, and calls are too
  /// short for its balancing to notice. If the helper may run on this processor alone,
  /// nothing changes.
  void leave(int processor) noexcept {
    cpu_set_t others = allowed_;
    if (processor >= 0 && processor < CPU_SETSIZE) {
      CPU_CLR(static_cast<unsigned>(processor), &others);
    }
    if (CPU_COUNT(&others) != 0) {
      static_cast<void>(::pthread_setaffinity_np(thread_, sizeof others, &others));
    }
  }
  /// The loop of the helper's thread.
  [[noreturn]] void serve() noexcept {
    for (;;) {
      wait_while(is_, idle);
      std::uint32_t expected = asked;
      if (is_.compare_exchange_strong(expected, running, std::memory_order_acq_rel)) {
        ran_on_ = ::sched_getcpu();
        (*work_)();
        is_.store(idle, std::memory_order_release);
        is_.notify_one();
      }
    }
  }

  std::atomic<std::uint32_t> is_{idle};  ///< a `state`
  const std::function<void()>* work_ =
      nullptr;           ///< of the caller; valid while asked or running
  int ran_on_ = -1;      ///< processor on which the helper began last
  cpu_set_t allowed_{};  ///< processors on which it may run
  std::thread::native_handle_type thread_{};  ///< for its affinity
};

/// Idle helper threads of one process. Helpers and pool live as long as the process: they
/// have no destructor that could run while a helper still waits.
class helper_pool {
 public:
  /// Returns the pool of this process. A child gets a new pool, because the threads of
  /// its parent do not exist after `fork`.
  static helper_pool& own() {
    // The loop ends when the current pool belongs to this process. A thread that loses
    // the race to store its new pool takes the winner's.
    static std::atomic<helper_pool*> current{nullptr};
    helper_pool* pool = current.load(std::memory_order_acquire);
    while (pool == nullptr || pool->process_ != ::getpid()) {
      auto made = std::make_unique<helper_pool>();
      if (current.compare_exchange_strong(pool, made.get(), std::memory_order_acq_rel)) {
        pool = made.release();
      }
    }
    return *pool;
  }

  /// Takes `count` helpers, or fewer if no more threads can be created.
  std::vector<helper*> take(std::size_t count) {
    std::vector<helper*> taken;
    const std::lock_guard lock(guard_);
    taken.reserve(count);
    while (taken.size() < count && !free_.empty()) {
      taken.push_back(free_.back());
      free_.pop_back();
    }
    // Fewer helpers only make the loop slower; the caller does all pieces in any case.
    try {
      while (taken.size() < count) {
        free_.reserve(all_ + 1);  // so that giving back cannot fail
        taken.push_back(new helper);
        ++all_;
      }
    } catch (const std::system_error&) {
    } catch (const std::bad_alloc&) {
    }
    return taken;
  }
  /// Returns helpers to the pool. Cannot fail: take() has reserved the memory.
  void give_back(const std::vector<helper*>& taken) noexcept {
    const std::lock_guard lock(guard_);
    free_.insert(free_.end(), taken.begin(), taken.end());
  }

 private:
  const pid_t process_ = ::getpid();  ///< process that made the pool
  std::mutex guard_;                  ///< for the members below
  std::vector<helper*> free_;         ///< helpers that no caller has
  std::size_t all_ = 0;               ///< helpers of this pool, free or taken
};

}  // namespace

/// Every helper that was asked is finished before the function returns: `work` lives on
/// the stack of the caller.
void run_with_others(std::size_t others, const std::function<void()>& work) {
  helper_pool& pool = helper_pool::own();
  const std::vector<helper*> taken = pool.take(others);
  for (helper* h : taken) {
    h->ask(work);
  }
  work();
  for (helper* h : taken) {
    h->finish();
  }
  pool.give_back(taken);
}

}  // namespace weir::formats
