// SPDX-License-Identifier: Apache-2.0
/// @file
/// Streams over live sources, child processes made of a shell, and peers of sockets.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "storage/context_support.hpp"
#include "weir/storage/live_source.hpp"

namespace weir::test {

inline std::unique_ptr<storage::context_stream> stream_of(
    std::unique_ptr<storage::token_source> source, std::size_t chunk = 48) {
  storage::stream_config c;
  c.chunk = chunk;
  return or_throw(storage::context_stream::open(c, std::move(source)));
}

/// Returns the command of a child that answers with the lines of a file. A state is the
/// number of lines before it.
inline std::vector<std::string> child_of(const std::string& path) {
  return {"/bin/sh", "-c",
          "echo '{\"hello\": 1, \"dataset\": \"a\"}'; read s; s=${s#*: }; s=${s%\\}}; "
          "[ \"$s\" = null ] && s=0; tail -n +$((s + 1)) \"$0\"",
          path};
}
/// Opens a child that prints a text.
inline std::unique_ptr<storage::token_source> says(const std::string& text,
                                                   storage::live_options options = {}) {
  return or_throw(
      storage::open_child_source({"/bin/sh", "-c", "printf '%s' \"$0\"", text}, options));
}
/// Returns the error of reading a source to its end.
inline error error_of_reading(std::unique_ptr<storage::token_source> source) {
  tokens some(1000);
  for (std::uint64_t index = 0;;) {
    const auto got = source->read(index, some);
    if (!got) {
      return got.error();
    }
    if (*got == 0) {
      return error(errc::internal, "no error");
    }
    index += *got;
  }
}

/// A peer of a socket.
class peer {
 public:
  explicit peer(const std::string& address) {
    if (address.starts_with("unix:")) {
      sockaddr_un un{};
      un.sun_family = AF_UNIX;
      address.copy(un.sun_path, sizeof(un.sun_path) - 1, 5);
      fd_ = ::socket(AF_UNIX, SOCK_STREAM, 0);
      EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&un), sizeof(un)), 0);
    } else {
      sockaddr_in four{};
      four.sin_family = AF_INET;
      four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      four.sin_port = htons(
          static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
      fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
      EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&four), sizeof(four)), 0);
    }
  }
  peer(const peer&) = delete;
  peer& operator=(const peer&) = delete;
  ~peer() { ::close(fd_); }
  void send(const std::string& text) const {
    EXPECT_EQ(::send(fd_, text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  /// Breaks the connection: the other side gets an error behind the bytes that were sent.
  void reset() {
    const linger at_once{1, 0};
    EXPECT_EQ(::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
    ::close(std::exchange(fd_, -1));
  }
  /// Returns the next bytes, or nothing once the connection is closed.
  [[nodiscard]] std::string receive() const {
    char piece[100];
    const ssize_t got = ::recv(fd_, piece, sizeof(piece), 0);
    return {piece, piece + (got > 0 ? got : 0)};
  }
  /// Returns whether the other side has closed the connection. Does not wait.
  [[nodiscard]] bool is_closed() const {
    char piece = 0;
    const ssize_t got = ::recv(fd_, &piece, 1, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN);
  }

 private:
  int fd_ = -1;
};

/// Returns the address at which a source listens.
inline std::string address_of(const storage::token_source& source) {
  const std::string text = source.place_text(0);
  return text.substr(0, text.size() - 2);
}

inline std::string text_of(const tokens& ids) {
  std::string out;
  for (const std::uint32_t id : ids) {
    out += id == storage::end_of_text ? '|' : static_cast<char>(id);
  }
  return out;
}

/// Returns the chunks as text; "^" stands before a chunk with a new context.
inline std::string chunks_of(storage::context_stream& stream, std::size_t n,
                             std::size_t count = 100) {
  std::string out;
  for (const auto& chunk : read_all(stream, n, 0, count)) {
    out += (out.empty() ? "" : " ") + std::string(chunk.new_context ? "^" : "") +
           text_of(chunk.tokens);
  }
  return out;
}

}  // namespace weir::test
