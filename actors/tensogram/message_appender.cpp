// SPDX-License-Identifier: Apache-2.0
/// @file
/// The handlers of the message appender. Appends share a sync: the actor sends itself a
/// message behind the appends that are in its mailbox, and syncs when that one arrives.
///
/// An append is answered only when it is durable. Syncing every message alone would cost
/// a disk operation each, so the answers wait in `waiting` for the next sync.
#include "tensogram/message_appender.hpp"

#include <fmt/core.h>

namespace weir::actors {

namespace {

using appender_pointer = message_appender_actor::stateful_pointer<message_appender_shell>;
using append_promise = caf::typed_response_promise<local<appended_message>>;

/// Error of requests before `open`.
error nothing_open() {
  return error(errc::stopping,
               "appending a message failed: expected an open file, found none");
}

/// Syncs the file and answers all appends that wait. If the sync fails, all get its
/// error.
result<std::uint64_t> flush(message_appender_shell& s) {
  auto durable = s.core->sync();
  while (!s.waiting.empty()) {
    auto [reply, span] = std::move(s.waiting.front());
    s.waiting.pop_front();
    if (durable) {
      reply.deliver(by_reference(appended_message{span.offset, span.length, *durable}));
    } else {
      reply.deliver(durable.error());
    }
  }
  return durable;
}

/// Opens the file once. An actor serves one file for its whole life.
result<local<message_target_info>> open_target(message_appender_shell& s,
                                               const message_appender_config& config,
                                               const message_target& target) {
  if (s.core) {
    return error(errc::already_exists,
                 fmt::format("cannot open \"{}\": expected a new message appender, found "
                             "one that has a file",
                             target.path));
  }
  WEIR_TRY(s.core, message_file::open(config.environment, target));
  s.sync_bytes = target.sync_bytes;
  return by_reference(message_target_info(s.core->info()));
}

/// Appends a message, and promises an answer for when it is durable. Several appends
/// share one sync: it runs when enough bytes have come together, or else when the actor
/// reaches the message that it sends to itself, behind the appends that were in its
/// mailbox already.
caf::result<local<appended_message>> append(appender_pointer self,
                                            const message_order& order) {
  message_appender_shell& s = self->state;
  if (!s.core) {
    return to_caf(nothing_open());
  }
  // The window bounds the memory of replies and the work that a failure can lose.
  if (s.waiting.size() >= s.core->info().window) {
    return to_caf(error(errc::out_of_range,
                        fmt::format("cannot append message: expected at most {} appends "
                                    "without an answer, found one more",
                                    s.core->info().window)));
  }
  auto span = s.core->append(order);
  if (!span) {
    return to_caf(span.error());
  }
  append_promise promise = self->make_response_promise<local<appended_message>>();
  s.waiting.push_back({{promise, "an append of the message appender"}, *span});
  // Bytes that are written but not durable.
  if (s.core->end() - s.core->durable() >= s.sync_bytes) {
    // Its result was delivered to all appends that wait, this one included.
    static_cast<void>(flush(s));
  } else if (!s.working) {
    s.working = true;
    self->send(self, work_atom_v);
  }
  return promise;
}

}  // namespace

/// Every handler runs on the thread of this actor, so the file needs no lock.
message_appender_actor::behavior_type message_appender_io(
    appender_pointer self, message_appender_config config) {
  install_defaults(self);
  return {
      answers("message appender, open",
              [self, config](open_atom, const local<message_target>& target) {
                return open_target(self->state, config, *target);
              }),
      answers("message appender, append",
              [self](write_atom, const local<message_order>& order) {
                return append(self, *order);
              }),
      answers("message appender, flush",
              [self](flush_atom) -> result<std::uint64_t> {
                message_appender_shell& s = self->state;
                return s.core ? flush(s) : result<std::uint64_t>(nothing_open());
              }),
      reacts(self, "message appender, sync",
             [self](work_atom) {
               self->state.working = false;
               if (!self->state.waiting.empty()) {
                 static_cast<void>(flush(self->state));
               }
             }),
  };
}

}  // namespace weir::actors
