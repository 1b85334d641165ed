// SPDX-License-Identifier: Apache-2.0
/// @file
/// The message reader actor: Tensogram messages of a file, a folder or a pipe, read ahead
/// of who pulls them, on a thread of its own.
#pragma once

#include <deque>

#include "shim/shim.hpp"
#include "tensogram/reader_state.hpp"
#include "weir/actors/interfaces.hpp"

namespace weir::actors {

struct message_reader_config {
  feed_environment environment;
};
struct message_reader_shell {
  static constexpr const char* name = "weir.message_reader_io";
  std::unique_ptr<reader_state> core;  ///< null: nothing was opened
  std::deque<pending_reply<local<message_delivery>>> pulls;
  bool working = false;  ///< a message to itself is on its way
};
message_reader_actor::behavior_type message_reader_io(
    message_reader_actor::stateful_pointer<message_reader_shell> self,
    message_reader_config config);

}  // namespace weir::actors
