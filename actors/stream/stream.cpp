// SPDX-License-Identifier: Apache-2.0
/// @file
/// Messages of the stream actor.
#include "stream/stream.hpp"

#include "stream/bell.hpp"

namespace weir::actors {

namespace {

using self_pointer = stream_actor::stateful_pointer<stream_shell>;

result<stream_state*> core_of(self_pointer self) {
  auto& core = self->state.core;
  return core ? result<stream_state*>(core->get()) : core.error();
}

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

caf::result<std::uint64_t> synchronize(self_pointer self) {
  auto& s = self->state;
  if (!s.core) {
    return to_caf(s.core.error());
  }
  const auto ticket = (*s.core)->synchronize(clock_of(self));
  auto promise = self->make_response_promise<std::uint64_t>();
  s.waiting.emplace(ticket,
                    reply_later<std::uint64_t>(promise, "a synchronization of a stream"));
  look_later(self, (*s.core)->next_deadline(), s.look_at);
  return promise;
}

}  // namespace

stream_actor::behavior_type stream_queue(self_pointer self, queue_spec spec) {
  install_defaults(self);
  self->state.core = stream_state::make(std::move(spec), bell_of<stream_actor>(self));
  return {
      answers(
          "stream, launch",
          [self](launch_atom, const local<launch_order>& order) -> result<std::uint64_t> {
            WEIR_TRY(stream_state* const core, core_of(self));
            return core->launch(*order);
          }),
      answers("stream, copy",
              [self](copy_atom, const local<copy_order>& order) -> result<std::uint64_t> {
                WEIR_TRY(stream_state* const core, core_of(self));
                return core->copy(*order);
              }),
      answers("stream, record",
              [self](record_atom) -> result<local<tessera::event>> {
                WEIR_TRY(stream_state* const core, core_of(self));
                return local<tessera::event>(core->record());
              }),
      answers("stream, wait for an event",
              [self](await_atom,
                     const local<tessera::event>& point) -> result<std::uint64_t> {
                WEIR_TRY(stream_state* const core, core_of(self));
                return core->wait(*point);
              }),
      answers("stream, synchronize", [self](sync_atom) { return synchronize(self); }),
      reacts(self, "stream, ended", [self](ended_atom) { go_on(self); }),
      reacts(self, "stream, settle",
             [self](settle_atom) {
               self->state.look_at = INT64_MAX;
               go_on(self);
             }),
      answers("stream, status",
              [self](status_atom) -> result<std::string> {
                WEIR_TRY(stream_state* const core, core_of(self));
                return core->describe();
              }),
  };
}

}  // namespace weir::actors
