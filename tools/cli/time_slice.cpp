// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sets the time slice of a thread by system calls, for which the C library has no
/// functions.
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

constexpr std::uint64_t longest_slice_ns = 100'000'000;

}  // namespace

void prefer_long_time_slices() noexcept {
  scheduling now;
  if (::syscall(SYS_sched_getattr, 0, &now, sizeof(now), 0) != 0 ||
      (now.policy != SCHED_OTHER && now.policy != SCHED_BATCH)) {
    return;
  }
  now.runtime_ns = longest_slice_ns;
  ::syscall(SYS_sched_setattr, 0, &now, 0);
}

}  // namespace weir::tools
