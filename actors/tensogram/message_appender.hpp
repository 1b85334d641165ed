// SPDX-License-Identifier: Apache-2.0
/// @file
/// The message appender actor: appends messages to a file or writes them to a pipe, and
/// answers each when it is durable. It has its own thread, because files and pipes block.
#pragma once

#include <deque>

#include "shim/shim.hpp"
#include "tensogram/message_file.hpp"
#include "weir/actors/interfaces.hpp"

namespace weir::actors {

/// Configuration of a message appender.
struct message_appender_config {
  target_environment environment;  ///< where files are opened; tests replace it
};
/// State that CAF keeps for a message appender.
struct message_appender_shell {
  static constexpr const char* name = "weir.message_appender_io";
  /// An append that is written but not durable.
  struct waiting_append {
    pending_reply<local<appended_message>> reply;
    formats::message_span span;
  };
  std::unique_ptr<message_file> core;  ///< null until a file is open
  std::uint64_t sync_bytes = 0;        ///< bytes after which the file is synced at once
  std::deque<waiting_append> waiting;  ///< in the order of the file
  bool working = false;                ///< the message to sync is on its way
};
/// Returns the behavior of a message appender; CAF calls this when it spawns the actor.
message_appender_actor::behavior_type message_appender_io(
    message_appender_actor::stateful_pointer<message_appender_shell> self,
    message_appender_config config);

}  // namespace weir::actors
