// SPDX-License-Identifier: Apache-2.0
/// @file
/// The handlers of the message reader. The actor reads one message at a time and looks at
/// its mailbox in between, so that pulls are answered while it reads ahead.
#include "tensogram/message_reader.hpp"

#include <fmt/core.h>

namespace weir::actors {

namespace {

using reader_pointer = message_reader_actor::stateful_pointer<message_reader_shell>;
using delivery_promise = caf::typed_response_promise<local<message_delivery>>;

/// Answers the pulls for which messages are there. If more are to be read, sends the
/// actor a message to read: at once, or in a millisecond if a pipe has none now
/// (`waiting`).
void serve(reader_pointer self, bool waiting) {
  message_reader_shell& s = self->state;
  // Pulls and messages meet here, in their order.
  while (!s.pulls.empty()) {
    auto next = s.core->take();
    if (!next) {
      break;
    }
    // The reply must be out of the list before its delivery.
    pending_reply<local<message_delivery>> pull = std::move(s.pulls.front());
    s.pulls.pop_front();
    pull.deliver(*next ? result<local<message_delivery>>(by_reference(std::move(**next)))
                       : result<local<message_delivery>>(std::move(*next).error()));
  }
  // One message to itself at a time.
  if (s.working || !s.core->wants(s.pulls.size())) {
    return;
  }
  s.working = true;
  if (waiting) {
    self->delayed_send(self, std::chrono::milliseconds(1), work_atom_v);
  } else {
    // The message comes behind those that are in the mailbox already.
    self->send(self, work_atom_v);
  }
}

/// Opens a source once and begins to read ahead at once.
result<local<message_source_info>> open_source(reader_pointer self,
                                               const message_reader_config& config,
                                               const message_source& source) {
  message_reader_shell& s = self->state;
  if (s.core) {
    return error(errc::already_exists,
                 fmt::format("cannot open \"{}\": expected a new message reader, found "
                             "one that has a source",
                             source.path));
  }
  // Opening may block; the actor has its own thread.
  WEIR_TRY(auto feed, open_feed(config.environment, source));
  s.core = std::make_unique<reader_state>(std::move(feed), source);
  // Reads ahead before the first pull.
  serve(self, false);
  return by_reference(message_source_info(s.core->info()));
}

/// Promises the next delivery. Answers come in the order of the pulls.
caf::result<local<message_delivery>> pull(reader_pointer self) {
  message_reader_shell& s = self->state;
  if (!s.core) {
    return to_caf(error(errc::stopping,
                        "pulling a message failed: expected an open source, found none"));
  }
  // A client that never waits must not fill the memory with promises.
  if (s.pulls.size() == max_pulls) {
    return to_caf(error(errc::out_of_range,
                        fmt::format("cannot pull a message: expected at most {} pulls "
                                    "without an answer, found one more",
                                    max_pulls)));
  }
  // The answer comes with a later message.
  delivery_promise promise = self->make_response_promise<local<message_delivery>>();
  s.pulls.emplace_back(promise, "a pull of the message reader");
  serve(self, false);
  return promise;
}

/// One line for people.
std::string status(const message_reader_shell& s) {
  if (!s.core) {
    return "message reader: nothing is open";
  }
  return fmt::format("message reader: {} delivered, {} held ({} bytes), {} pulls wait",
                     s.core->delivered(), s.core->buffered(), s.core->buffered_bytes(),
                     s.pulls.size());
}

}  // namespace

/// The reader has a thread of its own, so that opening and reading may block.
message_reader_actor::behavior_type message_reader_io(reader_pointer self,
                                                      message_reader_config config) {
  install_defaults(self);
  return {
      answers("message reader, open",
              [self, config](open_atom, const local<message_source>& source) {
                return open_source(self, config, *source);
              }),
      answers("message reader, pull", [self](pull_atom) { return pull(self); }),
      reacts(self, "message reader, read",
             [self](work_atom) {
               message_reader_shell& s = self->state;
               s.working = false;
               // A pull may have been answered since this message was sent.
               // Reads at most one message, and then looks at the mailbox again.
               const bool read = s.core && s.core->wants(s.pulls.size());
               if (read) {
                 serve(self, s.core->read() == reader_state::step::waiting);
               }
             }),
      answers("message reader, status",
              [self](status_atom) -> result<std::string> { return status(self->state); }),
  };
}

}  // namespace weir::actors
