// SPDX-License-Identifier: Apache-2.0
/// @file
/// The handlers of the volume reader's messages. Each changes the plan and then calls
/// `advance_reader`, which gives jobs to workers and answers to clients.
///
/// The reader itself never blocks: workers open and read, and their answers are messages.
/// What the plan knows by number has its counterpart here: replies of clients, the
/// specifications of openings and the streams.
#include "volume/volume_reader.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace weir::actors {

namespace {

using volume_reader_pointer = volume_reader_actor::stateful_pointer<volume_reader_shell>;

void advance_reader(volume_reader_pointer self);

/// Delivers an answer of the plan to the client of the request.
/// An opening is answered here only if it has failed or is too late.
void deliver(volume_reader_shell& s, read_plan::answer a) {
  const auto opening = s.openings.find(a.ticket);
  // The ticket of an opening is in no other list.
  if (opening != s.openings.end()) {
    opening->second.reply.deliver(std::move(a.piece).error());
    s.openings.erase(opening);
    return;
  }
  // The client has gone, and its reply with it.
  // A ticket is answered once.
  const auto found = s.replies.find(a.ticket);
  if (found == s.replies.end()) {
    return;
  }
  auto reply = std::move(found->second);
  s.replies.erase(found);
  // A fill has a number as its answer, the others a piece.
  if (auto* filled = std::get_if<pending_reply<std::uint64_t>>(&reply)) {
    filled->deliver(a.piece ? result<std::uint64_t>(a.piece->count)
                            : result<std::uint64_t>(a.piece.error()));
    return;
  }
  auto& piece = std::get<pending_reply<local<volume_piece>>>(reply);
  piece.deliver(a.piece ? result<local<volume_piece>>(by_reference(std::move(*a.piece)))
                        : result<local<volume_piece>>(a.piece.error()));
}

/// Closes all streams of a client.
/// Called when the client has ended, so that its reading ahead gives the credits back.
void close_streams(volume_reader_shell& s, const caf::actor_addr& client) {
  // The actor that ended may be no client.
  const auto found = s.clients.find(client);
  if (found == s.clients.end()) {
    return;
  }
  // The plan answers requests of a closed stream with an error.
  for (const read_plan::stream_id id : found->second) {
    s.plan->close(id);
    s.streams.erase(id);
  }
  s.clients.erase(found);
}

/// Handles the end of an actor: of a client, whose streams are closed, or of a worker,
/// which will not answer its job.
// The plan has failed the jobs of the worker; other workers take the rest.
void on_client_down(volume_reader_pointer self, const caf::down_msg& down) {
  auto& s = self->state;
  close_streams(s, down.source);
  for (std::size_t i = 0; i < s.config.workers.size(); ++i) {
    if (s.config.workers[i].address() == down.source) {
      s.plan->lose_worker(
          i, error(errc::stopping, fmt::format("reading a volume failed: worker {} of "
                                               "{} has ended",
                                               i, s.config.workers.size())));
    }
  }
  advance_reader(self);
}

/// Adds the streams of a volume that a worker has opened, and answers the client.
void finish_opening(volume_reader_pointer self, const read_plan::job& j,
                    const tag_streams& streams) {
  auto& s = self->state;
  // The request was answered with a timeout; the volume is closed again with the streams.
  if (!s.plan->opened(j.id)) {
    return;
  }
  // The ticket is that of the request of the client.
  auto opening = std::move(s.openings.at(j.ticket));
  s.openings.erase(j.ticket);
  // Numbers of streams are never given twice.
  opened_streams out;
  const auto client = caf::actor_cast<caf::actor_addr>(opening.client);
  // A client is monitored once, for all of its streams.
  if (s.clients.count(client) == 0) {
    self->monitor(client);
  }
  auto& owned = s.clients[client];
  // Each tag that the client has asked for is a stream.
  for (const storage::hn4_stream& stream : streams) {
    const auto id = s.plan->add_stream(
        fmt::format("tag \"{}\" of {}", stream.tag(), opening.spec->path), stream.size(),
        stream.payload(), opening.spec->deadline_ns);
    s.streams.emplace(id, stream);
    owned.push_back(id);
    // Warnings of the volume are passed on.
    out.push_back({id, stream.tag(), stream.size(), stream.warnings()});
  }
  opening.reply.deliver(by_reference(std::move(out)));
}

/// Handles the error of a job.
void fail(volume_reader_pointer self, const read_plan::job& j, const caf::error& e) {
  auto& s = self->state;
  error reason = from_caf(e, "reading a volume");
  // The worker has ended, or has not answered for very long: it gets no more jobs.
  if (reason.code() == errc::stopping || reason.code() == errc::timeout) {
    s.plan->lose_worker(j.worker, reason);
  } else {
    s.plan->finished(j.id, std::move(reason));
  }
  advance_reader(self);
}

/// Sends a job to its worker.
void start(volume_reader_pointer self, const read_plan::job& j) {
  auto& s = self->state;
  // The plan chooses a worker without a job.
  const auto& worker = s.config.workers[j.worker];
  // The job of stream 0 is an opening.
  if (j.stream == 0) {
    self->request(worker, s.config.worker_deadline, open_atom_v,
                  s.openings.at(j.ticket).spec)
        .then(
            [self, j](const local<tag_streams>& streams) {
              finish_opening(self, j, *streams);
              advance_reader(self);
            },
            [self, j](const caf::error& e) { fail(self, j, e); });
    return;
  }
  // The order holds the stream and the holder of its memory, so a late worker stays safe.
  self->request(
          worker, s.config.worker_deadline, read_atom_v,
          by_reference(read_order{s.streams.at(j.stream), j.offset, j.memory, j.holder}))
      .then(
          [self, j](std::uint64_t count) {
            self->state.plan->finished(j.id, count);
            advance_reader(self);
          },
          [self, j](const caf::error& e) { fail(self, j, e); });
}

/// Gives jobs to idle workers, answers to clients, and schedules the timer.
void advance_reader(volume_reader_pointer self) {
  auto& s = self->state;
  // Jobs first: an answer may free a client to send more, which comes as a new message.
  // Each call of `next_job` makes a worker busy.
  while (const auto j = s.plan->next_job(clock_ns(self))) {
    start(self, *j);
  }
  // Answers that the plan has made since the last time.
  for (auto& a : s.plan->take_answers()) {
    deliver(s, std::move(a));
  }
  // The timer keeps the earliest time only; see `deadline_timer`.
  if (const auto deadline = s.plan->next_deadline()) {
    s.timer.schedule(self, *deadline);
  }
}

/// Keeps the reply to a request that the plan has accepted, or answers with its error.
/// `name` names the request in errors.
template <class T>
caf::typed_response_promise<T> ask_plan(volume_reader_pointer self, const char* name,
                                        result<read_plan::ticket_id> ticket) {
  // The answer comes with a later message, so it is promised.
  auto promise = self->make_response_promise<T>();
  pending_reply<T> later(promise, name);
  if (!ticket) {
    later.deliver(std::move(ticket).error());
  } else {
    self->state.replies.emplace(*ticket, std::move(later));
  }
  advance_reader(self);
  return promise;
}

/// The answer comes when a worker has opened the volume. The client owns the streams, and
/// they are closed when it ends.
caf::typed_response_promise<local<opened_streams>> open_volume(
    volume_reader_pointer self, const local<volume_spec>& spec) {
  // Making a promise clears the sender of the message, so it is read before.
  // The client owns the streams.
  auto client = self->current_sender();
  auto promise = self->make_response_promise<local<opened_streams>>();
  pending_reply<local<opened_streams>> later(promise, "an opening");
  auto ticket = self->state.plan->open(clock_ns(self), spec->deadline_ns);
  // More openings than the plan allows.
  if (!ticket) {
    later.deliver(std::move(ticket).error());
    return promise;
  }
  self->state.openings.emplace(
      *ticket, volume_reader_shell::opening{spec, std::move(client), std::move(later)});
  advance_reader(self);
  return promise;
}

/// The client remains known, because it may have other streams.
void close_stream(volume_reader_pointer self, read_plan::stream_id id) {
  auto& s = self->state;
  s.plan->close(id);
  // A worker that reads the stream at the moment has a copy of the handle.
  s.streams.erase(id);
  for (auto& [client, owned] : s.clients) {
    std::erase(owned, id);
  }
  advance_reader(self);
}

}  // namespace

volume_reader_actor::behavior_type volume_reader(volume_reader_pointer self,
                                                 volume_reader_config config) {
  install_defaults(self);
  self->state.plan = std::make_unique<read_plan>(config.plan, config.workers.size());
  self->state.config = std::move(config);
  // The end of a worker is a message too, so its job cannot be forgotten.
  // The plan knows workers by their place in this list.
  for (const auto& worker : self->state.config.workers) {
    self->monitor(worker);
  }
  self->set_down_handler(
      [self](const caf::down_msg& down) { on_client_down(self, down); });
  // Each handler calls the plan, and `advance_reader` does the rest.
  return {
      answers("volume reader, open",
              [self](open_atom, const local<volume_spec>& spec) {
                return open_volume(self, spec);
              }),
      answers("volume reader, pull",
              [self](pull_atom, std::uint64_t stream) {
                return ask_plan<local<volume_piece>>(
                    self, "a pull", self->state.plan->pull(stream, clock_ns(self)));
              }),
      answers("volume reader, read",
              [self](read_atom, std::uint64_t stream, std::uint64_t offset,
                     std::uint64_t bytes) {
                return ask_plan<local<volume_piece>>(
                    self, "a read",
                    self->state.plan->read(stream, offset, bytes, clock_ns(self)));
              }),
      answers("volume reader, fill",
              [self](fill_atom, const local<fill_order>& order) {
                return ask_plan<std::uint64_t>(
                    self, "a fill",
                    self->state.plan->fill(order->stream, order->offset, order->target,
                                           clock_ns(self)));
              }),
      reacts(self, "volume reader, close",
             [self](close_atom, std::uint64_t stream) { close_stream(self, stream); }),
      reacts(self, "volume reader, deadline",
             [self](deadline_atom) {
               self->state.timer.fired();
               self->state.plan->expire(clock_ns(self));
               advance_reader(self);
             }),
      answers("volume reader, status",
              [self](status_atom) -> result<std::string> {
                return self->state.plan->describe(clock_ns(self));
              }),
  };
}

}  // namespace weir::actors
