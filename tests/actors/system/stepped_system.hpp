// SPDX-License-Identifier: Apache-2.0
/// @file
/// An actor system without threads: a seed decides which actor handles its next message.
#pragma once

#include <algorithm>
#include <caf/scheduler/test_coordinator.hpp>
#include <chrono>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "shim/shim.hpp"

namespace weir::test {

/// The system, the actors that were spawned in it, and an actor of the test.
class stepped_system {
 public:
  explicit stepped_system(std::uint32_t seed) : random_(seed) {
    actors::system_options options;
    options.testing = true;
    options.own_threads = false;
    config_ = or_throw(actors::system_config::make(options));
    system_ = std::make_unique<caf::actor_system>(*config_);
    self_ = std::make_unique<caf::scoped_actor>(*system_);
  }
  ~stepped_system() { stop(); }
  stepped_system(const stepped_system&) = delete;
  stepped_system& operator=(const stepped_system&) = delete;

  template <class Fun, class... Config>
  auto spawn(Fun fun, Config... config) {
    auto handle = system_->spawn(fun, std::move(config)...);
    all_.push_back(caf::actor_cast<caf::actor>(handle));
    return handle;
  }
  [[nodiscard]] const std::vector<caf::actor>& all() const { return all_; }
  caf::scoped_actor& self() { return *self_; }

  /// Lets a random actor handle one message. Returns false if there is no message.
  bool step() {
    auto& jobs = scheduler().jobs;
    if (jobs.empty()) {
      return false;
    }
    std::rotate(jobs.begin(),
                jobs.begin() + static_cast<std::ptrdiff_t>(random_() % jobs.size()),
                jobs.end());
    scheduler().run_once();
    return true;
  }
  void step_all() {
    while (step()) {
    }
  }
  /// Lets time pass: timers fire. The messages that follow are left to `step`.
  void advance(std::chrono::nanoseconds time) {
    scheduler().advance_time(std::chrono::duration_cast<caf::timespan>(time));
  }
  /// Sends a request, calls `go_on()`, which must bring the answer, and returns it.
  template <class T, class GoOn, class Handle, class... As>
  result<T> ask_while(const GoOn& go_on, const Handle& to, As... as) {
    auto pending = (*self_)->request(to, std::chrono::seconds(3600), std::move(as)...);
    go_on();
    result<T> out = error(errc::internal, "no answer");
    pending.receive([&](const T& value) { out = value; },
                    [&](const caf::error& e) { out = actors::from_caf(e, "asking"); });
    return out;
  }
  template <class T, class Handle, class... As>
  result<T> ask(const Handle& to, As... as) {
    return ask_while<T>([this] { step_all(); }, to, std::move(as)...);
  }
  /// Stops all actors. A class that owns objects to which actors refer must call it
  /// before it destroys them.
  void stop() {
    if (!self_) {
      return;
    }
    for (const caf::actor& a : all_) {
      (*self_)->send_exit(a, caf::exit_reason::user_shutdown);
    }
    all_.clear();
    step_all();
    self_.reset();
  }

 private:
  caf::scheduler::test_coordinator& scheduler() {
    return dynamic_cast<caf::scheduler::test_coordinator&>(system_->scheduler());
  }
  std::mt19937 random_;
  std::unique_ptr<actors::system_config> config_;
  std::unique_ptr<caf::actor_system> system_;
  std::unique_ptr<caf::scoped_actor> self_;
  std::vector<caf::actor> all_;
};

}  // namespace weir::test
