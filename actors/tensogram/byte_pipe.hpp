// SPDX-License-Identifier: Apache-2.0
/// @file
/// Pipes that never block for longer than they are told to.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "weir/base/file.hpp"

namespace weir::actors {

/// Bytes that come once, in order.
/// @threads{thread-compatible}
class byte_pipe {
 public:
  virtual ~byte_pipe() = default;
  /// Up to `to.size()` bytes; 0: no more will come; nothing: none came in time.
  /// @error{io}
  [[nodiscard]] virtual result<std::optional<std::size_t>> read_some(
      mutable_bytes to) = 0;
};

/// A FIFO, a device, or "-" for standard input. Each read waits up to `timeout`.
/// @error{not_found; io}
[[nodiscard]] result<std::unique_ptr<byte_pipe>> open_pipe_to_read(
    const std::string& path, std::chrono::milliseconds timeout);

/// A FIFO or "-" for standard output, as a file whose offsets are those of the stream.
/// Waits up to `timeout` for a reader, and in each write for room.
/// @error{not_found; timeout; io}
[[nodiscard]] result<std::unique_ptr<file>> open_pipe_to_write(
    const std::string& path, std::chrono::milliseconds timeout);

/// Whether bytes at a path come once and in order: a FIFO, a socket, a terminal, "-".
[[nodiscard]] bool is_pipe(const std::string& path);

}  // namespace weir::actors
