// SPDX-License-Identifier: Apache-2.0
/// @file
/// Messages of the collective actor.
#include "collective/collective.hpp"

#include "stream/bell.hpp"

namespace weir::actors {

namespace {

using self_pointer = collective_actor::stateful_pointer<collective_shell>;

/// Answers to who waits, and a look at the clock later.
void go_on(self_pointer self) {
  auto& s = self->state;
  if (!s.core) {
    return;
  }
  for (auto& a : (*s.core)->take_answers(clock_of(self))) {
    if (auto found = s.waiting.extract(a.asked)) {
      found.mapped().deliver(std::move(a.outcome));
    }
  }
  look_later(self, (*s.core)->next_deadline(), s.look_at);
}

caf::result<std::uint64_t> join(self_pointer self, const join_order& order) {
  auto& s = self->state;
  if (!s.core) {
    return to_caf(s.core.error());
  }
  const auto ticket = (*s.core)->join(order, clock_of(self));
  if (!ticket) {
    return to_caf(ticket.error());
  }
  auto promise = self->make_response_promise<std::uint64_t>();
  s.waiting.emplace(*ticket,
                    pending_reply<std::uint64_t>(promise, "a share of a collective"));
  go_on(self);
  return promise;
}

}  // namespace

collective_actor::behavior_type collective_group(self_pointer self,
                                                 collective_spec spec) {
  install_defaults(self);
  self->state.core =
      collective_state::make(std::move(spec), bell_of<collective_actor>(self));
  return {
      answers("collective, join",
              [self](join_atom, const local<join_order>& order) {
                return join(self, *order);
              }),
      reacts(self, "collective, ended", [self](ended_atom) { go_on(self); }),
      reacts(self, "collective, deadline",
             [self](deadline_atom) {
               self->state.look_at = INT64_MAX;
               go_on(self);
             }),
      answers("collective, status",
              [self](status_atom) -> result<std::string> {
                auto& core = self->state.core;
                return core ? result<std::string>((*core)->describe()) : core.error();
              }),
  };
}

}  // namespace weir::actors
