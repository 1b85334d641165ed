// SPDX-License-Identifier: Apache-2.0
/// @file
/// The actor system of one run, seen from the thread that called it: spawn, ask, wait for
/// events, stop in order.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "conductor/conductor.hpp"
#include "shim/shim.hpp"
#include "supervisor/supervisor.hpp"
#include "weir/actors/interfaces.hpp"
#include "weir/actors/run.hpp"

namespace weir::actors {

struct warning_event {
  std::string text;
};
using run_event = std::variant<run_progress, warning_event, conductor_end, error>;

/// Events on their way from actors to the calling thread.
/// @threads{push: any thread; the rest: one thread}
class event_queue {
 public:
  explicit event_queue(run_control& control) : control_(&control) {}
  void push(run_event e);
  /// Waits until there are events or a stop was asked for; returns all of them.
  [[nodiscard]] std::vector<run_event> wait();

 private:
  run_control* control_;
  std::mutex mutex_;
  std::vector<run_event> events_;
};

/// Actors with a supervisor. Ends them when it goes.
/// @threads{thread-compatible}
class supervised_system {
 public:
  [[nodiscard]] static result<std::unique_ptr<supervised_system>> open(
      std::chrono::seconds deadline, std::shared_ptr<event_queue> events);
  ~supervised_system();
  supervised_system(const supervised_system&) = delete;
  supervised_system& operator=(const supervised_system&) = delete;

  /// Spawns an actor under the supervisor.
  template <class Fun, class Config>
  auto spawn_io(const char* name, stop_group group, Fun fun, Config config) {
    auto handle = spawn_own_thread(*system_, options_, fun, std::move(config));
    adopt(name, group, caf::actor_cast<caf::actor>(handle));
    return handle;
  }
  template <class Fun, class Config>
  auto spawn(const char* name, stop_group group, Fun fun, Config config) {
    auto handle = spawn_shared(*system_, fun, std::move(config));
    adopt(name, group, caf::actor_cast<caf::actor>(handle));
    return handle;
  }
  template <class T, class Handle, class... As>
  [[nodiscard]] result<T> ask(const Handle& to, const std::string& what, As... as) {
    return actors::ask<T>(*self_, to, deadline_, what, std::move(as)...);
  }
  template <class Handle, class... As>
  void tell(const Handle& to, As... as) {
    (*self_)->send(to, std::move(as)...);
  }
  /// Stops all actors in order. @return those that did not end in time
  [[nodiscard]] survivors stop();

 private:
  supervised_system() = default;
  void adopt(const char* name, stop_group group, caf::actor handle);

  std::chrono::seconds deadline_{600};
  system_options options_;
  // Destroyed in reverse order: our own handle, then the system, then its configuration.
  std::unique_ptr<system_config> config_;
  std::unique_ptr<caf::actor_system> system_;
  std::unique_ptr<caf::scoped_actor> self_;
  supervisor_actor supervisor_;
  bool stopped_ = false;
};

}  // namespace weir::actors
