// SPDX-License-Identifier: Apache-2.0
/// @file
/// The handlers of the observer's messages.
#include "progress/progress_observer.hpp"

#include <utility>

namespace weir::actors {

progress_observer_actor::behavior_type progress_observer(
    progress_observer_actor::stateful_pointer<progress_observer_shell> self,
    progress_observer_config config) {
  install_defaults(self);
  self->state.core = progress_state(config.stall_ns);
  return {
      reacts(
          self, "progress observer, sample",
          [self, config = std::move(config)](sample_atom, const local<host_sample>& s) {
            pipeline_progress p = self->state.core.take(*s);
            if (config.progress) {
              config.progress(std::move(p));
            }
            if (auto stalled = self->state.core.stall()) {
              config.stalled(std::move(*stalled));
            }
          }),
      answers(
          "progress observer, status",
          [self](status_atom) -> result<std::string> { return self->state.core.line(); }),
  };
}

}  // namespace weir::actors
