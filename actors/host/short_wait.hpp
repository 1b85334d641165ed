// SPDX-License-Identifier: Apache-2.0
/// @file
/// A short wait for the next message before a thread sleeps.
#pragma once

#include <cstdint>

#include "weir/base/clock.hpp"

namespace weir::actors {

/// Putting a thread to sleep and waking it takes the processors about this long, so that
/// waiting longer for a message would cost more than the sleep. @units{nanoseconds}
inline constexpr std::int64_t short_wait_ns = 5'000;

/// Waits a short time for a message to an actor that has its own thread. Hosts that
/// exchange items answer each other faster than a thread wakes up.
/// @param waits  There is a processor for each host. Otherwise the host that should
/// answer may wait for the processor of this one, and nothing is done.
template <class Self>
void wait_shortly(Self self, bool waits) {
  const std::int64_t until = waits ? now_ns() + short_wait_ns : 0;
  while (waits && self->mailbox().empty() && now_ns() < until) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
}

}  // namespace weir::actors
