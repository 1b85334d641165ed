// SPDX-License-Identifier: Apache-2.0
/// @file
/// Where a live source of bytes gets its bytes from.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "context/live/live_input.hpp"

namespace weir::storage {

/// A file descriptor that is closed with the object.
class owned_descriptor {
 public:
  explicit owned_descriptor(int fd = -1) : fd_(fd) {}
  owned_descriptor(owned_descriptor&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)) {}
  owned_descriptor& operator=(owned_descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~owned_descriptor();
  [[nodiscard]] int get() const noexcept { return fd_; }
  void close() noexcept { *this = owned_descriptor(); }
  /// Returns the descriptor, which the caller closes from now on.
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

/// Result of one look for bytes.
struct feed_piece {
  enum class kind : std::uint8_t {
    nothing,  ///< no byte came in time
    bytes,    ///< `count` bytes came
    left,     ///< the writer has gone, and another one may come
    end,      ///< no byte will come any more
  };
  kind is = kind::nothing;
  std::size_t count = 0;
};

/// A stream of bytes that arrive.
class byte_feed {
 public:
  virtual ~byte_feed() = default;
  /// Waits for bytes for a limited time. @param taken  Bytes of the stream so far.
  /// @error{source_unavailable, it cannot be read}
  [[nodiscard]] virtual result<feed_piece> receive(std::uint64_t taken, mutable_bytes to,
                                                   int wait_ms) = 0;
  /// Returns whether the feed can go on at any byte: writers are told from which one on
  /// they shall send, or a log has the bytes.
  [[nodiscard]] virtual bool asks() const { return false; }
};

/// Waits until a descriptor can be read. Returns false after `wait_ms`.
/// @error{source_unavailable, the system cannot tell; `name` is named}
[[nodiscard]] result<bool> wait_readable(int fd, int wait_ms, const std::string& name);
/// Reads a descriptor. 0 bytes are the end.
/// @error{source_unavailable, it cannot be read; `name` is named}
[[nodiscard]] result<feed_piece> read_piece(int fd, mutable_bytes to,
                                            const std::string& name);

/// Makes a feed of a descriptor, which it closes if `own` says so.
[[nodiscard]] std::unique_ptr<byte_feed> make_descriptor_feed(int fd, bool own,
                                                              std::string name);
/// A listening socket, and the address at which it listens.
struct opened_listener {
  std::unique_ptr<byte_feed> feed;
  std::string address;
};
/// Listens; see `open_socket_source`.
[[nodiscard]] result<opened_listener> make_listener_feed(const std::string& address,
                                                         const live_options& options);
/// Returns a feed whose bytes are in the log of the options before they are handed on;
/// the feed itself if there is no log.
/// @error{locked, another process has the log} @error{io, it cannot be used}
[[nodiscard]] result<std::unique_ptr<byte_feed>> make_logged_feed(
    std::unique_ptr<byte_feed> from, const live_options& options);
/// Makes the input that turns the bytes of a feed into tokens.
[[nodiscard]] std::unique_ptr<live_input> make_byte_input(std::unique_ptr<byte_feed> feed,
                                                          bool turns);

}  // namespace weir::storage
