// SPDX-License-Identifier: Apache-2.0
/// @file
/// The clock by which an actor measures deadlines, and the timer that wakes it for the
/// earliest one.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "weir/actors/messages.hpp"

namespace weir::actors {

/// Returns the time of the actor system's clock in nanoseconds. Deadlines are measured by
/// this clock and not by `weir::now_ns`, because tests on the deterministic scheduler
/// move it by hand.
template <class Self>
[[nodiscard]] std::int64_t clock_ns(Self self) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             self->clock().now().time_since_epoch())
      .count();
}

/// The timer of an actor that keeps the deadlines of many requests.
///
/// CAF cannot cancel a delayed message, and a message for every deadline would wake a
/// thread for every request. The timer therefore sends a `deadline_atom` only if none is
/// on its way that arrives early enough. When that message arrives, the actor calls
/// `fired`, answers the requests whose deadline has passed, and schedules the timer for
/// the earliest deadline that is left.
/// @threads{thread-compatible: belongs to the actor}
class deadline_timer {
 public:
  /// Sends the actor a `deadline_atom` when `deadline_ns` passes, or leaves that to a
  /// message that arrives earlier. The message takes at least a millisecond, so that a
  /// deadline that stays in the past does not keep the actor busy.
  template <class Self>
  void schedule(Self self, std::int64_t deadline_ns) {
    if (deadline_ns < next_ns_) {
      next_ns_ = deadline_ns;
      const auto wait = std::max<std::int64_t>(deadline_ns - clock_ns(self), 1'000'000);
      self->delayed_send(self, std::chrono::nanoseconds(wait), deadline_atom_v);
    }
  }
  /// Notes that a `deadline_atom` has arrived. If another one is still on its way, the
  /// actor will check its deadlines once more than needed, which does no harm.
  void fired() noexcept { next_ns_ = INT64_MAX; }

 private:
  std::int64_t next_ns_ = INT64_MAX;  ///< when the next message arrives, if there is one
};

}  // namespace weir::actors
