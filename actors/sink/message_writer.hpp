// SPDX-License-Identifier: Apache-2.0
/// @file
/// The message writer actor: Tensogram files, replaced whole, on a thread of its own.
#pragma once

#include "shim/shim.hpp"
#include "weir/actors/interfaces.hpp"
#include "weir/base/file.hpp"

namespace weir::actors {

/// One message with the objects "tokens" (uint64 [n]) and "bits_per_byte" (float64 [n]).
[[nodiscard]] result<byte_vector> encode_curve(const curve_order& order);

struct message_writer_config {
  file_system* fs = &posix_file_system();
};
struct message_writer_shell {
  static constexpr const char* name = "weir.message_writer_io";
};
message_writer_actor::behavior_type message_writer_io(
    message_writer_actor::stateful_pointer<message_writer_shell> self,
    message_writer_config config);

}  // namespace weir::actors
