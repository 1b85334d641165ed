// SPDX-License-Identifier: Apache-2.0
/// @file
/// Starting and stopping of the actor system of one call, and its queue of events.
///
/// The destructor of CAF's actor system waits for all actors. An actor inside a read that
/// never returns would therefore block the program for ever, which is why `stop` can give
/// the system up.
#include "run/supervised_system.hpp"

#include <poll.h>
#include <unistd.h>

#include <utility>

namespace weir::actors {

/// A signal may end the wait early; callers look at the state again anyway. Reading the
/// descriptor takes the wake-up back, so that the next wait sleeps.
void wait_for(const run_control& control) {
  pollfd waited{control.descriptor(), POLLIN, 0};
  ::poll(&waited, 1, -1);
  std::uint64_t count = 0;
  [[maybe_unused]] const auto read = ::read(control.descriptor(), &count, sizeof count);
}

/// The supervisor is not adopted by itself: `stop` ends it last.
result<std::unique_ptr<supervised_system>> supervised_system::open(
    std::chrono::seconds deadline, std::function<void(error)> failed) {
  std::unique_ptr<supervised_system> s(new supervised_system);
  s->deadline_ = deadline;
  WEIR_TRY(s->config_, system_config::make(s->options_));
  s->system_ = std::make_unique<caf::actor_system>(*s->config_);
  s->self_ = std::make_unique<caf::scoped_actor>(*s->system_);
  supervisor_config config;
  config.failed = std::move(failed);
  s->supervisor_ = spawn_shared(*s->system_, actors::supervisor, std::move(config));
  return s;
}

/// Stops all actors, group by group, and returns the names of those that did not end in
/// time. Only the first call does something.
survivors supervised_system::stop() {
  if (std::exchange(stopped_, true)) {
    return {};
  }
  // The supervisor answers when all groups have ended or have passed their deadlines.
  const auto left =
      ask<local<survivors>>(supervisor_, "stopping all actors", stop_atom_v);
  (*self_)->send_exit(supervisor_, caf::exit_reason::user_shutdown);
  supervisor_ = nullptr;
  self_.reset();
  if (left && left.value()->empty()) {
    system_.reset();
    return {};
  }
  // Some actor has not ended. The destructor of the actor system would wait for it for
  // ever, so the system is leaked on purpose: a leak is better than a call that never
  // returns.
  static_cast<void>(system_.release());
  static_cast<void>(config_.release());
  return left ? **left : survivors{"supervisor"};
}

supervised_system::~supervised_system() {
  static_cast<void>(stop());
}

}  // namespace weir::actors
