// SPDX-License-Identifier: Apache-2.0
/// @file
/// A short wait of a thread for another one, before it sleeps.
#pragma once

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "weir/base/clock.hpp"

namespace weir {

/// Waits a short time for something that another thread or process is about to do.
///
/// Two threads that exchange messages often answer each other within microseconds. To
/// sleep and to be woken takes both of them longer than that, above all in a virtual
/// machine, where waking an idle processor requires an exit to the hypervisor. The wait
/// therefore looks again and again, and calls `sched_yield` between two looks, so that
/// the thread which should answer can run on the same processor.
///
/// A stream that brings an item only now and then should cost little. Each wait in vain
/// therefore shortens the next ones by an eighth, down to `min_ns`, and each wait that
/// succeeds lengthens them by an eighth, up to `max_ns`.
///
/// A yield also lets other programs run. If they use the processor up, the call returns
/// only milliseconds later, while a sleeping thread would have been woken at once. After
/// such a call the object does not wait for `rest` times as long. Slow yields of one
/// object therefore take at most about one twentieth of the time.
/// @threads{one at a time}
class yielding_wait {
 public:
  /// Longest wait: a stage in Python processes the items of a message in this time.
  /// @units{nanoseconds}
  static constexpr std::int64_t max_ns = 100'000;
  /// Longest wait after many waits in vain. It is longer than the sleep and the wake-up
  /// of a thread, because two threads that sleep in turn would otherwise go on doing so.
  /// @units{nanoseconds}
  static constexpr std::int64_t min_ns = 25'000;
  /// A yield that takes longer than this has let another program use the processor.
  /// @units{nanoseconds}
  static constexpr std::int64_t slow_ns = 500'000;
  /// How many times as long as a slow yield no wait begins.
  static constexpr std::int64_t rest = 20;
  /// A yield counts as at most so long, because the whole machine may have stood still.
  /// @units{nanoseconds}
  static constexpr std::int64_t max_slow_ns = 50'000'000;

  /// Calls `ready` until it returns true, for at most `max_ns` and one yield. Calls it
  /// once if the object does not wait.
  /// @param ready  Takes no arguments, returns a `bool` and does not block.
  /// @returns whether `ready` has returned true
  template <class Ready>
  [[nodiscard]] bool operator()(Ready&& ready) {
    if (ready()) {
      return true;
    }
    const std::int64_t begin = now_ns();
    for (std::int64_t now = begin; now >= rests_until_;) {
      ::sched_yield();
      const std::int64_t before = std::exchange(now, now_ns());
      if (now - before > slow_ns) {
        rests_until_ = now + rest * std::min(now - before, max_slow_ns);
      }
      if (ready()) {
        limit_ns_ = std::min(limit_ns_ + limit_ns_ / 8, max_ns);
        return true;
      }
      if (now - begin >= limit_ns_) {
        limit_ns_ = std::max(limit_ns_ - limit_ns_ / 8, min_ns);
        return false;
      }
    }
    return false;
  }

 private:
  std::int64_t limit_ns_ = max_ns;  ///< longest time of the next wait
  std::int64_t rests_until_ = 0;    ///< no wait begins before
};

}  // namespace weir
