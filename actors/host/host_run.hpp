// SPDX-License-Identifier: Apache-2.0
/// @file
/// What all parts of the engine host share: its run, the message that keeps it working,
/// and the end of the run.
#pragma once

#include <utility>

#include "host/engine_host.hpp"

namespace weir::actors {

using host_pointer = engine_host_actor::stateful_pointer<engine_host_shell>;
using outside = engine_host_shell::outside;

/// Returns the execution of the run. @pre It was launched.
inline flow::execution& execution_of(host_pointer self) {
  return *self->state.config.parts->run;
}

/// Sends the host a message to work, unless one is on its way or the run has ended.
inline void keep_working(host_pointer self) {
  auto& s = self->state;
  if (!s.working && !s.over) {
    s.working = true;
    ++s.report.messages;
    self->send(self, work_atom_v);
  }
}

/// Ends the run with an error, unless it has ended.
inline void fail(host_pointer self, error cause) {
  auto& s = self->state;
  if (!s.over) {
    s.over = true;
    // A source that has failed lets the run make a last checkpoint. If that fails as
    // well, for example because the source has died, the run tells the first failure
    // alone: the second one follows from it.
    s.config.failed(s.failure ? std::move(*s.failure) : std::move(cause));
  }
}

/// Fails the run if a result is an error. Returns whether it is a success.
template <class T>
bool succeeded(host_pointer self, result<T>& r) {
  if (!r) {
    fail(self, std::move(r.error()));
  }
  return r.has_value();
}

}  // namespace weir::actors
