// SPDX-License-Identifier: Apache-2.0
/// @file
/// The orchestrator actor: one engine, one submitter, its own thread.
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

/// What the orchestrator makes its model with, on its own thread.
struct built_model {
  std::unique_ptr<pulse_model> model;
  model_info info;
};
using model_factory = std::function<result<built_model>(const model_spec&)>;
/// The prose model on an engine of its own.
[[nodiscard]] result<built_model> build_prose(const model_spec& spec);

struct orchestrator_config {
  model_factory factory = build_prose;
};

struct orchestrator_shell {
  static constexpr const char* name = "weir.orchestrator";
  /// To who sent pulses together: one answer, because an answer wakes a thread, which
  /// takes a core from a worker.
  struct pulses_reply {
    pending_reply<local<pulses_done>> to;
    std::size_t left = 0;  ///< pulses that have not ended
    pulses_done done;
  };
  using reply = std::variant<pulses_reply, pending_reply<local<state_snapshot>>>;

  std::unique_ptr<orchestrator_state> core;  ///< after open
  std::deque<reply> replies;                 ///< in the order of the queue
  bool working = false;  ///< a work message is on its way to ourselves
};

orchestrator_actor::behavior_type orchestrator(
    orchestrator_actor::stateful_pointer<orchestrator_shell> self,
    orchestrator_config config);

}  // namespace weir::actors
