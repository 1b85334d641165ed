// SPDX-License-Identifier: Apache-2.0
/// @file
/// The number of processors that a thread may run on.
#pragma once

#include <sched.h>

namespace weir {

/// Returns the number of processors in the affinity mask of the calling thread, which a
/// container or `taskset` may have restricted.
/// @returns 0 if the system does not tell.
/// @threads{safe to call concurrently}
[[nodiscard]] inline unsigned allowed_processors() noexcept {
  cpu_set_t allowed;
  return ::sched_getaffinity(0, sizeof allowed, &allowed) == 0
             ? static_cast<unsigned>(CPU_COUNT(&allowed))
             : 0;
}

}  // namespace weir
