// SPDX-License-Identifier: Apache-2.0
/// @file
/// Handlers of the collective actor's messages.
///
/// The shares of a collective are matched by `collective_state`; this file keeps the
/// reply of each rank until its answer is known.
#include "collective/collective.hpp"

namespace weir::actors {

namespace {

using collective_pointer = collective_actor::stateful_pointer<collective_shell>;

/// Handles the share of a rank, and keeps the reply until the collective has ended.
caf::result<std::uint64_t> join(collective_pointer self, const join_order& order) {
  const auto core = core_of(self);
  if (!core) {
    return to_caf(core.error());
  }
  const auto ticket = (*core)->join(order, clock_ns(self));
  if (!ticket) {
    return to_caf(ticket.error());
  }
  auto promise = reply_by_ticket(self, *ticket, "a share of a collective");
  deliver_answers(self);  // this share may have decided about shares that wait
  return promise;
}

}  // namespace

collective_actor::behavior_type collective_group(collective_pointer self,
                                                 collective_spec spec) {
  install_defaults(self);
  // A group that cannot be made answers every request with the reason.
  // Workers of the engine call the notifier when the operations of a share have ended.
  self->state.core =
      collective_state::make(std::move(spec), notifier_of<collective_actor>(self));
  return {
      answers("collective, join",
              [self](join_atom, const local<join_order>& order) {
                return join(self, *order);
              }),
      on_ended(self, "collective, ended"),
      on_deadline(self, "collective, deadline"),
      on_status(self, "collective, status"),
  };
}

}  // namespace weir::actors
