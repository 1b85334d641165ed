// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the shim around CAF: errors that travel through CAF, handlers that throw, and
/// replies that are dropped.
#include "shim/shim.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "weir/actors/interfaces.hpp"

namespace weir::actors {
namespace {

using namespace std::chrono_literals;

using probe_actor = caf::typed_actor<caf::replies_to<read_atom, int>::with<int>,
                                     caf::reacts_to<work_atom>>;

/// An actor whose reaction depends on the number it is asked with: 1 throws, 2 fails, 3
/// and 4 never answer, and any other number is returned. Work makes it drop its promise
/// and throw.
struct probe_shell {
  static constexpr const char* name = "weir.probe";
  pending_reply<int> later;
};
/// A configuration, which every actor of the shim takes.
struct probe_config {
  int unused = 0;
};

/// Keeps the promise of an answer.
caf::typed_response_promise<int> postpone(
    probe_actor::stateful_pointer<probe_shell> self) {
  auto promise = self->make_response_promise<int>();
  self->state.later = {promise, "the probe's answer"};
  return promise;
}

/// The handlers of the probe.
probe_actor::behavior_type probe(probe_actor::stateful_pointer<probe_shell> self,
                                 probe_config) {
  install_defaults(self);
  return {answers("probe, read",
                  [self](read_atom, int number) -> caf::result<int> {
                    if (number == 1) {
                      throw std::runtime_error("out of luck");
                    }
                    if (number == 2) {
                      return to_caf(error(errc::torn, "outer")
                                        .located("here")
                                        .hint("try again")
                                        .because(error(errc::io, "inner")));
                    }
                    if (number == 3 || number == 4) {
                      return postpone(self);
                    }
                    return number;
                  }),
          reacts(self, "probe, work", [self](work_atom) {
            self->state.later = {};
            throw std::runtime_error("broken");
          })};
}

/// An actor system with one probe.
struct shim : testing::Test {
  /// An actor that holds a promise refers to itself, so it does not end when its last
  /// handle is dropped. It is told to end, as a supervisor does.
  ~shim() override { self->send_exit(target, caf::exit_reason::user_shutdown); }
  std::unique_ptr<system_config> config = or_throw(system_config::make({}));
  caf::actor_system system{*config};
  caf::scoped_actor self{system};
  probe_actor target = spawn_shared(system, probe, probe_config{});

  result<int> ask_for(int number, std::chrono::seconds deadline = 20s) {
    return ask<int>(self, target, deadline, "asking the probe", read_atom_v, number);
  }
};

TEST_F(shim, an_answer_arrives) {
  EXPECT_EQ(ask_for(7).value(), 7);
}

TEST_F(shim, an_exception_becomes_an_answer_with_its_text_and_the_actor_lives) {
  const auto r = ask_for(1);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().text(), "unexpected exception: out of luck");
  EXPECT_EQ(r.error().location(), "probe, read");
  EXPECT_EQ(ask_for(7).value(), 7);
}

TEST_F(shim, an_error_arrives_whole) {
  const auto r = ask_for(2);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::torn);
  EXPECT_EQ(r.error().text(), "outer");
  EXPECT_EQ(r.error().location(), "here");
  EXPECT_EQ(r.error().hint(), "try again");
  ASSERT_NE(r.error().cause(), nullptr);
  EXPECT_EQ(r.error().cause()->code(), errc::io);
}

TEST_F(shim, a_request_ends_at_its_deadline) {
  const auto r = ask_for(3, 1s);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::timeout);
}

TEST_F(shim, a_dropped_promise_answers_abandoned) {
  auto pending = self->request(target, 20s, read_atom_v, 4);
  self->send(target, work_atom_v);
  errc code = errc::internal;
  pending.receive([](int) {},
                  [&](const caf::error& e) { code = from_caf(e, "waiting").code(); });
  EXPECT_EQ(code, errc::abandoned);
}

TEST_F(shim, a_failed_message_without_answer_ends_the_actor_with_its_text) {
  self->monitor(target);
  self->send(target, work_atom_v);
  std::string text;
  self->receive(
      [&](const caf::down_msg& down) { text = from_caf(down.reason, "probe").text(); });
  EXPECT_EQ(text, "unexpected exception: broken");
  const auto r = ask_for(7);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::stopping) << "the actor has ended";
}

TEST(system_config, takes_the_policies_it_names) {
  system_options testing;
  testing.testing = true;
  const auto config = system_config::make(testing);
  ASSERT_TRUE(config);
  caf::actor_system system(**config);
  EXPECT_EQ(caf::get<caf::atom_value>(caf::content(**config), "scheduler.policy"),
            caf::atom("testing"));
}

}  // namespace
}  // namespace weir::actors
