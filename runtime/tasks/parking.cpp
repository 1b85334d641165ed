// SPDX-License-Identifier: Apache-2.0
/// @file
/// Parking on Linux futexes, because std::atomic::wait has no time limit.
#include "tasks/parking.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

#include "weir/base/clock.hpp"

namespace weir::runtime {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

/// Sleeps while `word` equals `expected`; a negative time means without limit. May return
/// early for any reason, so the caller looks again.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                std::int64_t timeout_ns) noexcept {
  timespec limit{};
  limit.tv_sec = timeout_ns / 1'000'000'000;
  limit.tv_nsec = timeout_ns % 1'000'000'000;
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected,
            timeout_ns < 0 ? nullptr : &limit, nullptr, 0);
}

/// Moves this thread to another processor. The system often wakes a thread on the
/// processor of the thread that woke it, although another processor is idle, and a thread
/// that sleeps again soon stays there for tens of milliseconds.
void leave(int processor) noexcept {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
    return;
  }
  cpu_set_t others = allowed;
  CPU_CLR(static_cast<unsigned>(processor), &others);
  if (CPU_COUNT(&others) != 0 && ::sched_setaffinity(0, sizeof others, &others) == 0) {
    static_cast<void>(::sched_setaffinity(0, sizeof allowed, &allowed));
  }
}

}  // namespace

/// The acquire load makes the waker's writes visible. The loop tolerates wake-ups without
/// a reason. A wake-up that comes between the last look and the store of 0 has done its
/// work: this thread is awake.
void parking_place::sleep(std::int64_t timeout_ns, bool moves) noexcept {
  woken_from_.store(-1, std::memory_order_relaxed);
  const std::int64_t end = timeout_ns < 0 ? 0 : now_ns() + timeout_ns;
  std::int64_t left = timeout_ns;
  while (parked_.load(std::memory_order_acquire) != 0) {
    futex_wait(parked_, 1, left);
    if (timeout_ns >= 0) {
      left = end - now_ns();
      if (left <= 0) {
        break;
      }
    }
  }
  parked_.store(0, std::memory_order_relaxed);
  const int from = woken_from_.load(std::memory_order_relaxed);
  if (moves && from >= 0 && from < CPU_SETSIZE && from == ::sched_getcpu()) {
    leave(from);
  }
}

/// The exchange finds out whether the owner is parked and takes the flag away in one
/// step, so that only one of several wakers makes the system call.
bool parking_place::wake() noexcept {
  if (parked_.exchange(0, std::memory_order_seq_cst) == 0) {
    return false;
  }
  woken_from_.store(::sched_getcpu(), std::memory_order_relaxed);
  ::syscall(SYS_futex, &parked_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  return true;
}

}  // namespace weir::runtime
