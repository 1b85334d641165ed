// SPDX-License-Identifier: Apache-2.0
/// @file
/// The actor system of one call, for the thread that makes the call: starting actors,
/// requests, waiting for events, and stopping all actors in order.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shim/shim.hpp"
#include "supervisor/supervisor.hpp"
#include "weir/actors/control.hpp"
#include "weir/actors/interfaces.hpp"

namespace weir::actors {

/// Waits until a control was woken or asked to stop, and takes back its being woken.
void wait_for(const run_control& control);

/// Events that actors send to the calling thread, which is not an actor.
/// @threads{`push`: any thread; the rest: the calling thread}
template <class Event>
class event_queue {
 public:
  /// Makes a queue that wakes the calling thread by `control`, which must outlive it.
  explicit event_queue(run_control& control) : control_(&control) {}
  /// Adds an event and wakes the calling thread.
  void push(Event e) {
    {
      const std::lock_guard lock(mutex_);
      events_.push_back(std::move(e));
    }
    control_->wake();
  }
  /// Waits until there are events or a stop was requested. Returns all events, which may
  /// be none.
  [[nodiscard]] std::vector<Event> wait() {
    wait_for(*control_);
    const std::lock_guard lock(mutex_);
    return std::exchange(events_, {});
  }

 private:
  run_control* control_;
  std::mutex mutex_;
  std::vector<Event> events_;
};

/// An actor system whose actors all have one supervisor. Its destructor stops them.
/// @threads{thread-compatible}
class supervised_system {
 public:
  /// Starts an actor system and a supervisor.
  /// @param deadline  For the answers to `ask`.
  /// @param failed  Gets the error of every actor that fails, on a thread of the system.
  [[nodiscard]] static result<std::unique_ptr<supervised_system>> open(
      std::chrono::seconds deadline, std::function<void(error)> failed);
  ~supervised_system();
  supervised_system(const supervised_system&) = delete;
  supervised_system& operator=(const supervised_system&) = delete;

  /// Starts an actor with its own thread, for actors that block.
  template <class Fun, class Config>
  auto spawn_io(const char* name, stop_group group, Fun fun, Config config) {
    auto handle = spawn_own_thread(*system_, options_, fun, std::move(config));
    adopt({name, group, caf::actor_cast<caf::actor>(handle)});
    return handle;
  }
  /// Starts an actor on the threads that all such actors share.
  template <class Fun, class Config>
  auto spawn(const char* name, stop_group group, Fun fun, Config config) {
    auto handle = spawn_shared(*system_, fun, std::move(config));
    adopt({name, group, caf::actor_cast<caf::actor>(handle)});
    return handle;
  }
  /// Sends a request and waits for the answer, as `actors::ask` does.
  template <class T, class Handle, class... As>
  [[nodiscard]] result<T> ask(const Handle& receiver, const std::string& action,
                              As... as) {
    return actors::ask<T>(*self_, receiver, deadline_, action, std::move(as)...);
  }
  /// Sends a message that has no answer.
  template <class Handle, class... As>
  void send(const Handle& receiver, As... as) {
    (*self_)->send(receiver, std::move(as)...);
  }
  /// Adopts an actor that was spawned elsewhere in the system.
  void adopt(child_spec child) {
    send(supervisor_, adopt_atom_v, by_reference(std::move(child)));
  }
  /// Returns the supervisor.
  [[nodiscard]] const supervisor_actor& supervisor() const noexcept {
    return supervisor_;
  }
  /// Returns CAF's system.
  [[nodiscard]] caf::actor_system& native() noexcept { return *system_; }
  /// Stops all actors in order. Returns the names of those that did not end in time. The
  /// system cannot be used any more.
  [[nodiscard]] survivors stop();

 private:
  supervised_system() = default;

  std::chrono::seconds deadline_{600};
  system_options options_;
  // The order matters: members are destroyed from the last to the first, and the handle
  // of this thread needs the system, which needs its configuration.
  std::unique_ptr<system_config> config_;
  std::unique_ptr<caf::actor_system> system_;
  std::unique_ptr<caf::scoped_actor> self_;
  supervisor_actor supervisor_;
  bool stopped_ = false;
};

}  // namespace weir::actors
