// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sets the time slice of a thread by system calls, for which the C library has no
/// functions.
///
/// A slice is the time for which the kernel lets a thread run before another thread of
/// the same core gets its turn. Longer slices mean fewer switches for threads that
/// compute.
#include "time_slice.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace weir::tools {

namespace {

/// The first version of the kernel's `struct sched_attr`.
struct scheduling {
  std::uint32_t size = sizeof(scheduling);
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime_ns = 0;  ///< for ordinary threads: the time slice
  std::uint64_t deadline_ns = 0;
  std::uint64_t period_ns = 0;
};
static_assert(sizeof(scheduling) == 48);

/// The kernel accepts slices from 0.1 ms to 100 ms for ordinary threads.
constexpr std::uint64_t longest_slice_ns = 100'000'000;

}  // namespace

void prefer_long_time_slices() noexcept {
  scheduling now;
  // Zero means the calling thread. Threads that it starts later inherit the slice.
  // Kernels without this system call, and sandboxes that forbid it, change nothing.
  if (::syscall(SYS_sched_getattr, 0, &now, sizeof(now), 0) != 0 ||
      // For real-time policies the same member has another meaning.
      (now.policy != SCHED_OTHER && now.policy != SCHED_BATCH)) {
    return;
  }
  now.runtime_ns = longest_slice_ns;
  // A failure is no problem: older kernels ignore or refuse the slice.
  ::syscall(SYS_sched_setattr, 0, &now, 0);
}

}  // namespace weir::tools
