// SPDX-License-Identifier: Apache-2.0
/// @file
/// The few ways in which our actors use CAF: spawn, ask, handle, answer later.
#pragma once

#include <chrono>
#include <exception>
#include <string>
#include <tuple>
#include <utility>

#include "weir/actors/messages.hpp"

namespace weir::actors {

/// What differs between a real system and a deterministic one in tests.
struct system_options {
  bool own_threads =
      true;  ///< false: actors that block share the scheduler, for the "testing" policy
  bool testing = false;  ///< scheduler policy "testing" instead of "sharing"
};

/// Configuration of the actor system: two threads that share one queue, at most 300
/// messages a turn.
/// @error{internal, CAF did not take a setting}
class system_config : public caf::actor_system_config {
 public:
  [[nodiscard]] static result<std::unique_ptr<system_config>> make(
      const system_options& o);
};

/// Spawns an actor that may block: a thread of its own, unless a test wants none.
/// The configuration is an argument, because CAF dereferences null for functions without
/// one.
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

/// Turns whatever was thrown into an error that names where.
[[nodiscard]] error error_of_exception(const std::string& where);

namespace detail {

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

/// Requests: `F` returns `result<T>` or a promise.
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

/// Messages without an answer: what goes wrong ends the actor, and so reaches the
/// supervisor.
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

/// Wraps the handler of a request, once: an exception becomes its answer.
template <class F>
[[nodiscard]] auto answers(const char* where, F f) {
  return detail::handler<F, decltype(&F::operator())>{std::move(f), where};
}
/// Wraps the handler of a message without an answer.
template <class F>
[[nodiscard]] auto reacts(caf::scheduled_actor* self, const char* where, F f) {
  return detail::handler<F, decltype(&F::operator())>{std::move(f), where, self};
}

/// Answers a request later, exactly once: dropped unanswered it answers `abandoned`.
template <class T>
class pending_reply {
 public:
  pending_reply() = default;
  pending_reply(caf::typed_response_promise<T> promise, std::string what)
      : promise_(std::move(promise)), what_(std::move(what)), open_(true) {}
  pending_reply(pending_reply&& other) noexcept
      : promise_(std::move(other.promise_)),
        what_(std::move(other.what_)),
        open_(std::exchange(other.open_, false)) {}
  pending_reply& operator=(pending_reply&& other) noexcept {
    if (this != &other) {
      drop();
      promise_ = std::move(other.promise_);
      what_ = std::move(other.what_);
      open_ = std::exchange(other.open_, false);
    }
    return *this;
  }
  ~pending_reply() { drop(); }

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
      deliver(error(errc::abandoned, what_ + " was dropped without an answer"));
    }
  }
  caf::typed_response_promise<T> promise_;
  std::string what_;
  bool open_ = false;
};

/// Asks from a thread that is no actor, and waits. @error{timeout; what the receiver
/// answers}
template <class T, class Handle, class... As>
[[nodiscard]] result<T> ask(caf::scoped_actor& self, const Handle& to,
                            std::chrono::seconds deadline, const std::string& what,
                            As... as) {
  result<T> out = error(errc::internal, what + ": no answer was handled");
  self->request(to, deadline, std::move(as)...)
      .receive([&](const T& value) { out = value; },
               [&](const caf::error& e) { out = from_caf(e, what); });
  return out;
}

/// Defaults of every actor of ours: an exit message with a reason ends it with that
/// reason, unknown messages are answered with an error, exceptions keep their text.
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
