// SPDX-License-Identifier: Apache-2.0
/// @file
/// The message appender actor: messages at the end of a file or into a pipe, each
/// answered when it is durable, on a thread of its own.
#pragma once

#include <deque>

#include "shim/shim.hpp"
#include "tensogram/message_file.hpp"
#include "weir/actors/interfaces.hpp"

namespace weir::actors {

struct message_appender_config {
  target_environment environment;
};
struct message_appender_shell {
  static constexpr const char* name = "weir.message_appender_io";
  struct waiting_append {
    pending_reply<local<appended_message>> reply;
    formats::message_span span;
  };
  std::unique_ptr<message_file> core;  ///< null: nothing was opened
  std::uint64_t sync_bytes = 0;
  std::deque<waiting_append> waiting;  ///< for being durable
  bool working = false;                ///< a message to itself is on its way
};
message_appender_actor::behavior_type message_appender_io(
    message_appender_actor::stateful_pointer<message_appender_shell> self,
    message_appender_config config);

}  // namespace weir::actors
