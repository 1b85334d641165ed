// SPDX-License-Identifier: Apache-2.0
/// @file
/// The collective actor: ranks join with their shares, and each rank is answered when the
/// collective has ended or cannot run.
#pragma once

#include "collective/collective_state.hpp"
#include "stream/queue_shell.hpp"
#include "weir/actors/interfaces.hpp"

namespace weir::actors {

/// State that CAF keeps for a collective actor.
struct collective_shell : queue_shell<collective_state> {
  static constexpr const char* name = "weir.collective";
};
/// Returns the behavior of a collective actor; CAF calls this when it spawns
/// the actor. If the group of `spec` cannot be made, the actor lives all the same and
/// answers every request with the reason.
collective_actor::behavior_type collective_group(
    collective_actor::stateful_pointer<collective_shell> self, collective_spec spec);

}  // namespace weir::actors
