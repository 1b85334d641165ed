// SPDX-License-Identifier: Apache-2.0
/// @file
/// How many processors there are to run on.
#pragma once

#include <sched.h>

namespace weir {

/// Processors that this thread may use; 0 if that is not known.
[[nodiscard]] inline unsigned allowed_processors() noexcept {
  cpu_set_t allowed;
  return ::sched_getaffinity(0, sizeof allowed, &allowed) == 0
             ? static_cast<unsigned>(CPU_COUNT(&allowed))
             : 0;
}

}  // namespace weir
