// SPDX-License-Identifier: Apache-2.0
/// @file
/// The handler of the relay.
///
/// A job is a function that the relay calls on itself; see `request` in system_core.hpp.
#include "system/relay.hpp"

namespace weir::actors {

relay_actor::behavior_type relay(relay_actor::stateful_pointer<relay_shell> self,
                                 relay_config) {
  install_defaults(self);
  return {
      reacts(self, "relay, work",
             [self](work_atom, const local<relay_job>& job) { job->run(self); }),
  };
}

}  // namespace weir::actors
