// SPDX-License-Identifier: Apache-2.0
/// @file
/// The actor that writes the checkpoints of a pipeline.
#pragma once

#include <memory>

#include "epochs/epoch_store.hpp"
#include "epochs/interfaces.hpp"
#include "shim/shim.hpp"

namespace weir::actors {

/// Configuration of an epoch saver.
struct epoch_saver_config {
  std::shared_ptr<epoch_store> store;  ///< not null; used by this actor alone
};
/// State that CAF keeps for an epoch saver.
struct epoch_saver_shell {
  static constexpr const char* name = "weir.epoch_saver";
};
/// Returns the behavior of an epoch saver; CAF calls this when it spawns the actor.
epoch_saver_actor::behavior_type epoch_saver(
    epoch_saver_actor::stateful_pointer<epoch_saver_shell> self,
    epoch_saver_config config);

}  // namespace weir::actors
