// SPDX-License-Identifier: Apache-2.0
/// @file
/// The part that the stream actor and the collective actor have in common: their state
/// puts operations into queues, workers report when operations have ended, and requests
/// are answered then or when their deadline passes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "shim/deadline_timer.hpp"
#include "shim/shim.hpp"

namespace weir::actors {

/// Returns a function by which workers of an engine tell an actor that operations have
/// ended: it sends an `ended_atom`, from any thread, and does nothing once the actor is
/// gone. It never throws: if there is no memory for the message, the message is lost, and
/// the actor finds out at its next deadline instead.
template <class Actor, class Self>
[[nodiscard]] std::function<void()> notifier_of(Self self) {
  return [address = self->address()]() noexcept {
    try {
      if (auto alive = caf::actor_cast<caf::strong_actor_ptr>(address)) {
        caf::anon_send(caf::actor_cast<Actor>(std::move(alive)), ended_atom_v);
      }
    } catch (...) {  // NOLINT: the comment above says why nothing is lost for good
    }
  };
}

/// The parts of an actor around its state: the replies that it owes, by the tickets of
/// the state, and the timer of their deadlines.
///
/// `State` has a type `ticket` and the members `take_answers(now_ns)`, which returns
/// pairs of a ticket and its outcome, `next_deadline()` and `describe()`.
template <class State>
struct queue_shell {
  /// The state, or the error for which it could not be made; that error then answers
  /// every request.
  result<std::unique_ptr<State>> core =
      error(errc::not_initialized, "the queues of the actor are not open yet");
  /// Replies that were promised and not given, by the ticket of their request.
  std::map<typename State::ticket, pending_reply<std::uint64_t>> replies;
  /// Fires at the next deadline of the state.
  deadline_timer timer;
};

/// Returns the state of an actor, or the error for which there is none.
template <class Self>
[[nodiscard]] auto core_of(Self self) {
  auto& core = self->state.core;
  using pointer = decltype(core->get());
  return core ? result<pointer>(core->get()) : result<pointer>(core.error());
}

/// Keeps the reply to the current request until `deliver_answers` finds its answer.
/// `name` names the request in the error of a reply that is dropped without an answer.
template <class Self, class Ticket>
[[nodiscard]] auto reply_by_ticket(Self self, Ticket ticket, std::string name) {
  auto promise = self->template make_response_promise<std::uint64_t>();
  self->state.replies.emplace(ticket,
                              pending_reply<std::uint64_t>(promise, std::move(name)));
  self->state.timer.schedule(self, (*self->state.core)->next_deadline());
  return promise;
}

/// Answers the requests whose operations have ended or whose deadline has passed, and
/// schedules the timer for the next deadline.
template <class Self>
void deliver_answers(Self self) {
  auto& s = self->state;
  if (!s.core) {
    return;
  }
  for (auto& answer : (*s.core)->take_answers(clock_ns(self))) {
    // A request may have been answered before, at its deadline.
    if (auto reply = s.replies.extract(answer.asked)) {
      reply.mapped().deliver(std::move(answer.outcome));
    }
  }
  s.timer.schedule(self, (*s.core)->next_deadline());
}

/// Returns the handler of `ended_atom`. `where` names the actor in errors, here and
/// below.
template <class Self>
[[nodiscard]] auto on_ended(Self self, const char* where) {
  // Several operations may have ended; the message carries no number.
  return reacts(self, where, [self](ended_atom) { deliver_answers(self); });
}
/// Returns the handler of `deadline_atom`.
template <class Self>
[[nodiscard]] auto on_deadline(Self self, const char* where) {
  return reacts(self, where, [self](deadline_atom) {
    self->state.timer.fired();
    deliver_answers(self);
  });
}
/// Returns the handler of `status_atom`.
template <class Self>
[[nodiscard]] auto on_status(Self self, const char* where) {
  return answers(where, [self](status_atom) -> result<std::string> {
    WEIR_TRY(auto* const core, core_of(self));
    return core->describe();
  });
}

}  // namespace weir::actors
