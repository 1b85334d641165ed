// SPDX-License-Identifier: Apache-2.0
/// @file
/// The conductor of a pipeline: an actor that orders epochs from the engine host and has
/// their images saved.
#pragma once

#include <functional>
#include <string>

#include "epochs/epoch_plan.hpp"
#include "epochs/interfaces.hpp"
#include "shim/shim.hpp"

namespace weir::actors {

/// Configuration of a conductor.
struct epoch_conductor_config {
  epoch_rules rules;                         ///< how often checkpoints are made
  epoch_saver_actor saver;                   ///< null: checkpoints are not kept
  std::function<void(std::string)> warning;  ///< called with one line of text; not empty
};
/// State that CAF keeps for a conductor.
struct epoch_conductor_shell {
  static constexpr const char* name = "weir.epoch_conductor";
  epoch_conductor_config config;
  /// The rules; replaced by those of the configuration when the actor starts.
  epoch_plan plan{{}};
  engine_host_actor host;                ///< null before the launch
  pending_reply<std::uint64_t> saved{};  ///< reply to the host while an image is saved
};
/// Returns the behavior of a conductor; CAF calls this when it spawns the actor.
epoch_conductor_actor::behavior_type epoch_conductor(
    epoch_conductor_actor::stateful_pointer<epoch_conductor_shell> self,
    epoch_conductor_config config);

}  // namespace weir::actors
