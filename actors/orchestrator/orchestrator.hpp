// SPDX-License-Identifier: Apache-2.0
/// @file
/// The orchestrator actor: owns an engine and a model. Its thread is the only submitter
/// of the engine.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <variant>
#include <vector>

#include "orchestrator/orchestrator_state.hpp"
#include "shim/shim.hpp"
#include "weir/actors/interfaces.hpp"

namespace weir::actors {

/// A model and the information about it.
struct built_model {
  std::unique_ptr<pulse_model> model;
  model_info info;
};
/// Builds a model. The orchestrator calls it on its own thread.
using model_factory = std::function<result<built_model>(const model_spec&)>;
/// Builds a prose model with its own engine.
[[nodiscard]] result<built_model> build_prose(const model_spec& spec);

/// Configuration of an orchestrator. Tests use another factory.
struct orchestrator_config {
  model_factory factory = build_prose;
};

/// State that CAF keeps for an orchestrator.
struct orchestrator_shell {
  static constexpr const char* name = "weir.orchestrator";
  /// The reply to a message with several pulses. There is one reply for all of them,
  /// because each reply wakes a thread, which takes a core from a worker.
  struct pulses_reply {
    pending_reply<local<pulses_done>> reply;
    std::size_t left = 0;  ///< pulses that have not ended
    pulses_done done;      ///< results of those that have
  };
  using reply = std::variant<pulses_reply, pending_reply<local<state_snapshot>>>;

  std::unique_ptr<orchestrator_state> core;  ///< null until the model is open
  std::deque<reply> replies;                 ///< in the order of the queued work
  bool working = false;  ///< a message to work is on its way to this actor
};

/// Returns the behavior of an orchestrator; CAF calls this when it spawns the actor.
orchestrator_actor::behavior_type orchestrator(
    orchestrator_actor::stateful_pointer<orchestrator_shell> self,
    orchestrator_config config);

}  // namespace weir::actors
