// SPDX-License-Identifier: Apache-2.0
/// @file
/// The few ways in which our actors use CAF: spawning, asking, handling messages, and
/// answering later.
///
/// CAF 0.17 carries an exception of a handler as a code without text, and drops a promise
/// that is destroyed without an answer. The wrappers here make sure that every request is
/// answered once, and that every error keeps its text and its causes.
#pragma once

#include <chrono>
#include <exception>
#include <string>
#include <tuple>
#include <utility>

#include "weir/actors/messages.hpp"
#include "weir/base/system/yielding_wait.hpp"

namespace weir::actors {

/// Differences between an actor system of a program and a deterministic one of a test.
struct system_options {
  /// False: actors that block share the scheduler, as policy "testing" needs it.
  bool own_threads = true;
  bool testing = false;  ///< scheduler policy "testing" instead of "sharing"
};

/// Configuration of an actor system: one scheduler thread, which handles at most 300
/// messages of an actor before the next actor's turn. Actors that block have threads of
/// their own.
class system_config : public caf::actor_system_config {
 public:
  /// Makes the configuration. It must outlive the actor system.
  /// @error{internal, CAF did not accept a setting}
  [[nodiscard]] static result<std::unique_ptr<system_config>> make(
      const system_options& o);
};

/// Spawns an actor that may block: it gets a thread of its own, unless a test wants none.
/// Every actor function takes a configuration, because CAF dereferences a null pointer
/// for functions without one.
template <class Fun, class Config>
auto spawn_own_thread(caf::actor_system& system, const system_options& o, Fun fun,
                      Config config) {
  return o.own_threads ? system.spawn<caf::detached>(fun, std::move(config))
                       : system.spawn(fun, std::move(config));
}
/// Spawns an actor that never blocks.
template <class Fun, class Config>
auto spawn_shared(caf::actor_system& system, Fun fun, Config config) {
  return system.spawn(fun, std::move(config));
}

/// Waits a short time for the next message of an actor before its thread sleeps. Does
/// nothing if the actor shares a thread with those that should send the message.
template <class Self>
void wait_for_message(Self self, yielding_wait& wait) {
  if (self->getf(caf::abstract_actor::is_detached_flag)) {
    static_cast<void>(wait([self] { return !self->mailbox().empty(); }));
  }
}

/// Converts the exception that is being handled to an error. Call it in a catch block.
/// @param where  Actor and message, for the error.
[[nodiscard]] error error_of_exception(const std::string& where);

namespace detail {

// The three types that the handler of a request may return, as CAF wants them.
template <class T>
[[nodiscard]] caf::result<T> answer_of(result<T> r) {
  if (!r) {
    return to_caf(r.error());
  }
  return std::move(*r);
}
template <class T>
[[nodiscard]] caf::result<T> answer_of(caf::typed_response_promise<T> promise) {
  return promise;
}

template <class T>
[[nodiscard]] caf::result<T> answer_of(caf::result<T> answer) {
  return answer;
}

template <class F, class Signature>
struct handler;

/// Handles a request: `F` returns `result<T>`, `caf::result<T>` or a promise.
template <class F, class R, class... As>
struct handler<F, R (F::*)(As...) const> {
  F f;
  const char* where;
  auto operator()(As... as) const -> decltype(answer_of(f(as...))) {
    try {
      return answer_of(f(as...));
    } catch (...) {
      return to_caf(error_of_exception(where));
    }
  }
};

/// Handles a message without an answer. Nobody waits for its error, so an exception ends
/// the actor, and the supervisor reports it.
template <class F, class... As>
struct handler<F, void (F::*)(As...) const> {
  F f;
  const char* where;
  caf::scheduled_actor* self = nullptr;
  void operator()(As... as) const {
    try {
      f(as...);
    } catch (...) {
      self->quit(to_caf(error_of_exception(where)));
    }
  }
};

}  // namespace detail

/// Wraps the handler of a request: an exception becomes the answer to the request.
/// @param where  Actor and message, for the error.
template <class F>
[[nodiscard]] auto answers(const char* where, F f) {
  return detail::handler<F, decltype(&F::operator())>{std::move(f), where};
}
/// Wraps the handler of a message without an answer: an exception ends the actor.
template <class F>
[[nodiscard]] auto reacts(caf::scheduled_actor* self, const char* where, F f) {
  return detail::handler<F, decltype(&F::operator())>{std::move(f), where, self};
}

/// The reply to a request that is answered after its handler has returned. It is
/// delivered exactly once: a reply that is destroyed without having been delivered
/// answers `abandoned`, so that the client does not wait for its deadline.
/// @threads{thread-compatible: belongs to the actor}
template <class T>
class pending_reply {
 public:
  /// Makes a reply to no request.
  pending_reply() = default;
  /// Takes the promise of a request. `name` names the request in the error `abandoned`.
  pending_reply(caf::typed_response_promise<T> promise, std::string name)
      : promise_(std::move(promise)), name_(std::move(name)), open_(true) {}
  pending_reply(pending_reply&& other) noexcept
      : promise_(std::move(other.promise_)),
        name_(std::move(other.name_)),
        open_(std::exchange(other.open_, false)) {}
  pending_reply& operator=(pending_reply&& other) noexcept {
    if (this != &other) {
      drop();
      promise_ = std::move(other.promise_);
      name_ = std::move(other.name_);
      open_ = std::exchange(other.open_, false);
    }
    return *this;
  }
  ~pending_reply() { drop(); }

  /// Answers the request; does nothing if it was answered before.
  void deliver(result<T> r) {
    if (std::exchange(open_, false)) {
      if (r) {
        promise_.deliver(std::move(*r));
      } else {
        promise_.deliver(to_caf(r.error()));
      }
    }
  }

 private:
  void drop() {
    if (open_) {
      deliver(error(errc::abandoned, name_ + " was dropped without an answer"));
    }
  }
  caf::typed_response_promise<T> promise_;
  std::string name_;
  bool open_ = false;
};

/// Sends a request from a thread that is not an actor, and waits for the answer. Also
/// returns the errors that the receiver answers.
/// @param action  What is asked for, e.g. "opening the stream"; begins texts of errors.
/// @error{timeout, no answer came within the deadline}
/// @error{stopping, the receiver has ended}
template <class T, class Handle, class... As>
[[nodiscard]] result<T> ask(caf::scoped_actor& self, const Handle& receiver,
                            std::chrono::seconds deadline, const std::string& action,
                            As... as) {
  result<T> out = error(errc::internal, action + ": no answer was handled");
  self->request(receiver, deadline, std::move(as)...)
      .receive([&](const T& value) { out = value; },
               [&](const caf::error& e) { out = from_caf(e, action); });
  return out;
}

/// Sets what every actor here has in common: an exception that no handler has caught ends
/// the actor with an error that keeps the text. Every actor function calls it first.
template <class Self>
void install_defaults(Self self) {
  self->set_exception_handler([](std::exception_ptr& e) -> caf::error {
    try {
      std::rethrow_exception(e);
    } catch (...) {
      return to_caf(error_of_exception("actor"));
    }
  });
}

}  // namespace weir::actors
