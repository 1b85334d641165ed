// SPDX-License-Identifier: Apache-2.0
/// @file
/// The parts of an `actor_system` that its handles share: the actors by number, and the
/// requests to them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "run/supervised_system.hpp"
#include "system/relay.hpp"

namespace weir::actors {

/// What has to be done for an actor before it ends.
enum class last_work : std::uint8_t { nothing, flush, synchronize };

/// An actor of the system, and the actors that work for it alone.
struct system_entry {
  /// See `last_work`; set after the actor has opened its file or queue.
  last_work before_end = last_work::nothing;
  /// The actor to which requests go.
  caf::actor main;
  /// Workers that only the main actor uses; they end with it.
  std::vector<caf::actor> helpers;
};

/// An actor system and its actors. Handles of actors are kept here and nowhere else, so
/// that none outlives the system.
/// @threads{safe to call concurrently}
struct system_core {
  std::mutex mutex;
  bool stopping = false;                      ///< new requests are refused
  std::unique_ptr<supervised_system> system;  ///< null once it was stopped
  relay_actor requester;                      ///< null once the system was stopped
  /// By number. A number is never used twice.
  std::map<std::uint64_t, system_entry> entries;
  std::uint64_t last_number = 0;
  std::optional<error> failure;  ///< of the first actor that ended early
  actor_system_options options;

  /// Ends an actor after its last work. `stop` calls the second function for all of them
  /// when no other requests are taken any more.
  [[nodiscard]] result<void> close(std::uint64_t number);
  [[nodiscard]] result<void> finish_work(std::uint64_t number);
  [[nodiscard]] result<void> stop();
  void note_failure(const error& e);
};

/// The error of requests to an actor or a system that has ended.
[[nodiscard]] error ended_error(const std::string& action);

/// Sends a message to an actor, and returns its answer, which `convert` makes from the
/// payload. `Actor` is the type of the actor and `Answer` that of the payload.
/// @pre The mutex of `core` is held, or `core` is being stopped.
template <class Actor, class Answer, class Convert, class... As>
[[nodiscard]] auto request(system_core& core, const Actor& receiver, std::string action,
                           Convert convert, As... as)
    -> reply<std::decay_t<std::invoke_result_t<Convert, const Answer&>>> {
  using out = std::decay_t<std::invoke_result_t<Convert, const Answer&>>;
  const auto promise = std::make_shared<kept_promise<out>>(std::move(action));
  auto answer = promise->answer();
  // All values are copied into the job, because the calling thread goes on at once.
  relay_job job{[=, deadline = core.options.deadline](relay_actor::pointer self) {
    self->request(receiver, deadline, as...)
        .then(
            [=](const Answer& value) { promise->give(convert(value)); },
            [=](const caf::error& e) { promise->give(from_caf(e, promise->action())); });
  }};
  caf::anon_send(core.requester, work_atom_v, by_reference(std::move(job)));
  return answer;
}

/// Sends a request to the actor with a number, unless it or the system has ended.
template <class Actor, class Answer, class Convert, class... As>
[[nodiscard]] auto request_of(system_core& core, std::uint64_t number, std::string action,
                              Convert convert, As... as)
    -> reply<std::decay_t<std::invoke_result_t<Convert, const Answer&>>> {
  using out = std::decay_t<std::invoke_result_t<Convert, const Answer&>>;
  const std::lock_guard lock(core.mutex);
  const auto found = core.entries.find(number);
  if (core.stopping || found == core.entries.end()) {
    kept_promise<out> refused(action);
    refused.give(ended_error(action));
    return refused.answer();
  }
  return request<Actor, Answer>(core, caf::actor_cast<Actor>(found->second.main),
                                std::move(action), std::move(convert), std::move(as)...);
}

/// Conversions of payloads to answers.
/// Copies the payload.
struct as_value {
  template <class T>
  T operator()(const T& value) const {
    return value;
  }
  template <class T>
  T operator()(const local<T>& value) const {
    return *value;
  }
};
/// Shares the ownership of a payload that is large or must keep its address.
struct as_shared {
  template <class T>
  std::shared_ptr<const T> operator()(const local<T>& value) const {
    return value.share();
  }
};

/// Gives the functions of this module access to the parts of handles and systems.
struct handle_access {
  static const std::shared_ptr<system_core>& core(const actor_handle& h) {
    return h.core_;
  }
  static const std::shared_ptr<system_core>& core(const actor_system& s) {
    return s.core_;
  }
  static std::uint64_t number(const actor_handle& h) { return h.number_; }
};

}  // namespace weir::actors
