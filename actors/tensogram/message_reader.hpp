// SPDX-License-Identifier: Apache-2.0
/// @file
/// The message reader actor: reads the Tensogram messages of a file, a folder or a pipe
/// ahead of the client that pulls them. It has its own thread, because files and pipes
/// block.
#pragma once

#include <deque>

#include "shim/shim.hpp"
#include "tensogram/reader_state.hpp"
#include "weir/actors/interfaces.hpp"

namespace weir::actors {

/// Configuration of a message reader.
struct message_reader_config {
  feed_environment environment;
};
/// State that CAF keeps for a message reader.
struct message_reader_shell {
  static constexpr const char* name = "weir.message_reader_io";
  std::unique_ptr<reader_state> core;  ///< null until a source is open
  std::deque<pending_reply<local<message_delivery>>> pulls;  ///< unanswered, in order
  bool working = false;  ///< the message to read is on its way
};
/// Returns the behavior of a message reader; CAF calls this when it spawns the actor.
message_reader_actor::behavior_type message_reader_io(
    message_reader_actor::stateful_pointer<message_reader_shell> self,
    message_reader_config config);

}  // namespace weir::actors
