// SPDX-License-Identifier: Apache-2.0
/// @file
/// Messages over the socket between a run and the child process of a stage.
#pragma once

#include <cstdint>
#include <functional>

#include "process/wire.hpp"
#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"

namespace weir::actors {

/// A message with its payload.
struct wire_message {
  wire::head head{};    ///< its first bytes
  byte_vector payload;  ///< as many bytes as the head says
};

/// Waits until a descriptor can be read or written, and returns false after a deadline.
using wait_for_socket = std::function<result<bool>(int fd, bool to_write)>;

/// Sends a message. @param wait  Called when the socket takes no bytes now.
/// @error{abandoned, the other process has closed the socket} @error{timeout}
[[nodiscard]] result<void> send_message(int fd, const wire::head& head,
                                        bytes_view payload, const wait_for_socket& wait);
/// Receives a message. @param wait  Called when the socket has no bytes now.
/// @param max_bytes  Largest payload.
/// @error{abandoned, the other process has closed the socket} @error{timeout}
/// @error{corrupt, the first word or the size of the payload is wrong}
[[nodiscard]] result<wire_message> receive_message(int fd, std::uint64_t max_bytes,
                                                   const wait_for_socket& wait);

}  // namespace weir::actors
