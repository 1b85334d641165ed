// SPDX-License-Identifier: Apache-2.0
/// @file
/// The message writer actor: writes the learning curve as a Tensogram file. It has its
/// own thread, because files block.
#pragma once

#include "shim/shim.hpp"
#include "weir/actors/interfaces.hpp"
#include "weir/base/file.hpp"

namespace weir::actors {

/// Returns a message with the objects "tokens" and "bits_per_byte", which have an element
/// for each of the n points of the curve.
/// @shape{uint64 [n], float64 [n]}
[[nodiscard]] result<byte_vector> encode_curve(const curve_order& order);

/// Configuration of a message writer.
struct message_writer_config {
  file_system* fs = &posix_file_system();
};
/// State that CAF keeps for a message writer.
struct message_writer_shell {
  static constexpr const char* name = "weir.message_writer_io";
};
/// Returns the behavior of a message writer, which replaces files atomically; CAF calls
/// this when it spawns the actor.
message_writer_actor::behavior_type message_writer_io(
    message_writer_actor::stateful_pointer<message_writer_shell> self,
    message_writer_config config);

}  // namespace weir::actors
