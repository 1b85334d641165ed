// SPDX-License-Identifier: Apache-2.0
/// @file
/// How workers of an engine reach an actor.
#pragma once

#include <chrono>
#include <functional>

#include "shim/shim.hpp"

namespace weir::actors {

/// Tells the actor that something has ended, from any thread; nothing once it is gone. A
/// message that cannot be sent is lost: the actor looks again at the next deadline.
template <class Actor, class Self>
[[nodiscard]] std::function<void()> bell_of(Self self) {
  return [address = self->address()]() noexcept {
    try {
      if (auto there = caf::actor_cast<caf::strong_actor_ptr>(address)) {
        caf::anon_send(caf::actor_cast<Actor>(std::move(there)), ended_atom_v);
      }
    } catch (...) {  // NOLINT: see above
    }
  };
}

/// The scheduler's clock, so that tests can move it.
template <class Self>
[[nodiscard]] std::int64_t clock_of(Self self) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             self->clock().now().time_since_epoch())
      .count();
}

/// Has the actor look at the clock at `deadline_ns`; `look_at` is when it will anyway.
template <class Self>
void look_later(Self self, std::int64_t deadline_ns, std::int64_t& look_at) {
  if (deadline_ns < look_at) {
    look_at = deadline_ns;
    const auto wait = std::max<std::int64_t>(deadline_ns - clock_of(self), 1'000'000);
    self->delayed_send(self, std::chrono::nanoseconds(wait), deadline_atom_v);
  }
}

}  // namespace weir::actors
