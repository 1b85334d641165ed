// SPDX-License-Identifier: Apache-2.0
/// @file
/// Pipes whose reads and writes wait for a limited time only.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "weir/base/file.hpp"

namespace weir::actors {

/// A source whose bytes can be read once and in order.
/// @threads{thread-compatible}
class byte_pipe {
 public:
  virtual ~byte_pipe() = default;
  /// Reads up to `to.size()` bytes and returns their number: 0 if the pipe has ended, and
  /// nothing if no byte has come in time.
  /// @error{io}
  [[nodiscard]] virtual result<std::optional<std::size_t>> read_some(
      mutable_bytes to) = 0;
};

/// Opens a FIFO, a device, or "-" for standard input. Each read waits up to `timeout`.
/// @error{not_found, there is no such path}
/// @error{io}
[[nodiscard]] result<std::unique_ptr<byte_pipe>> open_pipe_to_read(
    const std::string& path, std::chrono::milliseconds timeout);

/// Opens a FIFO, or "-" for standard output, as a file. Its offsets count the bytes that
/// were written. The call waits up to `timeout` for a reader, and each write waits up to
/// `timeout` until the pipe has space.
/// @error{not_found, there is no such path}
/// @error{timeout, no reader has opened the pipe}
/// @error{io}
[[nodiscard]] result<std::unique_ptr<file>> open_pipe_to_write(
    const std::string& path, std::chrono::milliseconds timeout);

/// Returns whether bytes of a path can only be read once and in order: the path is a
/// FIFO, a socket, a character device such as a terminal, or "-".
[[nodiscard]] bool is_pipe(const std::string& path);

}  // namespace weir::actors
