// SPDX-License-Identifier: Apache-2.0
/// @file
/// The stream actor: messages become operations of one queue, and synchronizations are
/// answered when workers report that the queue has come so far.
#pragma once

#include "stream/queue_shell.hpp"
#include "stream/stream_state.hpp"
#include "weir/actors/interfaces.hpp"

namespace weir::actors {

/// State that CAF keeps for a stream actor.
struct stream_shell : queue_shell<stream_state> {
  static constexpr const char* name = "weir.stream";
};
/// Returns the behavior of a stream actor; CAF calls this when it spawns the
/// actor. If the queue of `spec` cannot be made, the actor lives all the same and answers
/// every request with the reason.
stream_actor::behavior_type stream_queue(
    stream_actor::stateful_pointer<stream_shell> self, queue_spec spec);

}  // namespace weir::actors
