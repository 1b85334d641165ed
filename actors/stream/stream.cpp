// SPDX-License-Identifier: Apache-2.0
/// @file
/// Handlers of the stream actor's messages.
///
/// An actor has one queue. Launches, copies, events and waits are answered as soon as
/// they are enqueued, only a synchronization waits for the device.
#include "stream/stream.hpp"

namespace weir::actors {

namespace {

using stream_pointer = stream_actor::stateful_pointer<stream_shell>;

/// Handles a synchronization, and keeps the reply until the queue has come so far.
caf::result<std::uint64_t> synchronize(stream_pointer self) {
  const auto core = core_of(self);
  if (!core) {
    return to_caf(core.error());
  }
  return reply_by_ticket(self, (*core)->synchronize(clock_ns(self)),
                         "a synchronization of a stream");
}

}  // namespace

stream_actor::behavior_type stream_queue(stream_pointer self, queue_spec spec) {
  install_defaults(self);
  // An error is kept as the state and answers every request.
  self->state.core = stream_state::make(std::move(spec), notifier_of<stream_actor>(self));
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
      on_ended(self, "stream, ended"),
      on_deadline(self, "stream, deadline"),
      on_status(self, "stream, status"),
  };
}

}  // namespace weir::actors
