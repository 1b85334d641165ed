// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests that supervised systems start and stop many times, under load and with actors
/// that fail.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "run/supervised_system.hpp"

namespace weir::actors {
namespace {

using worker_actor = caf::typed_actor<caf::reacts_to<work_atom>>;

/// Counter of actors that have ended, and the turn in which the actor fails; -1 if never.
struct worker_config {
  std::shared_ptr<std::atomic<int>> ended;
  int fails_after = -1;
};
/// The state of such an actor; it counts its own end.
struct worker_shell {
  static constexpr const char* name = "weir.worker";
  std::shared_ptr<std::atomic<int>> ended;
  int turns = 0;
  ~worker_shell() {
    if (ended) {
      ++*ended;
    }
  }
};

/// An actor that sends itself messages until it is stopped.
worker_actor::behavior_type worker(worker_actor::stateful_pointer<worker_shell> self,
                                   worker_config config) {
  install_defaults(self);
  self->state.ended = config.ended;
  return {reacts(self, "worker, work", [self, config](work_atom) {
    if (self->state.turns++ == config.fails_after) {
      throw std::runtime_error("a worker broke");
    }
    self->send(self, work_atom_v);
  })};
}

/// A supervised system with its queue of events.
struct open_system {
  open_system()
      : s(or_throw(supervised_system::open(
            std::chrono::seconds(30),
            [queue = events](error e) { queue->push(std::move(e)); }))) {}
  run_control control;
  std::shared_ptr<event_queue<error>> events =
      std::make_shared<event_queue<error>>(control);
  std::unique_ptr<supervised_system> s;
};

TEST(supervised_system, ends_under_load_every_time) {
  for (int round = 0; round < 60; ++round) {
    auto ended = std::make_shared<std::atomic<int>>(0);
    open_system open;
    for (const stop_group rank : {stop_group::source, stop_group::conductor,
                                  stop_group::sink, stop_group::engine}) {
      open.s->send(open.s->spawn_io("busy_io", rank, worker, worker_config{ended}),
                   work_atom_v);
      open.s->send(open.s->spawn("busy", rank, worker, worker_config{ended}),
                   work_atom_v);
    }
    EXPECT_TRUE(open.s->stop().empty());
    EXPECT_EQ(ended->load(), 8);
  }
}

TEST(supervised_system, ends_when_it_is_merely_destroyed) {
  auto ended = std::make_shared<std::atomic<int>>(0);
  {
    open_system open;
    open.s->send(open.s->spawn("busy", stop_group::source, worker, worker_config{ended}),
                 work_atom_v);
  }
  EXPECT_EQ(ended->load(), 1);
}

TEST(supervised_system, reports_a_child_that_fails_with_name_text_and_cause) {
  open_system open;
  auto ended = std::make_shared<std::atomic<int>>(0);
  open.s->send(
      open.s->spawn("fragile", stop_group::source, worker, worker_config{ended, 5}),
      work_atom_v);
  const auto events = open.events->wait();
  ASSERT_EQ(events.size(), 1U);
  const error& failure = events.front();
  EXPECT_EQ(failure.text(), "actor fragile ended early");
  EXPECT_EQ(failure.root().text(), "unexpected exception: a worker broke");
}

TEST(event_queue, wakes_for_a_stop_without_an_event) {
  run_control control;
  event_queue<error> events(control);
  std::thread later([&] { control.request_stop(); });
  EXPECT_TRUE(events.wait().empty());
  later.join();
  EXPECT_TRUE(control.stop_requested());
}

}  // namespace
}  // namespace weir::actors
