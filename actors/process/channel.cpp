// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sends and receives messages without blocking, so that a deadline can end the wait.
///
/// A message is a head of fixed size and a payload of `head.bytes` bytes. Both functions
/// return either after the whole message or with an error; after an error the connection
/// is of no use any more, because its place in the byte stream is lost.
#include "process/channel.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

namespace weir::actors {
namespace {

/// Memory for a payload grows by this much, so that a wrong size does not take memory.
/// @units{bytes}
constexpr std::size_t growth = std::size_t{1} << 20;

/// The other process has closed its end, or has died: the kernel closes the sockets of a
/// process that ends. Callers tell this apart from damage by the code `abandoned`.
error closed() {
  return error(errc::abandoned, "the socket was closed");
}

/// Waits until the socket is ready. A wait that reaches its deadline becomes an error, so
/// that loops over partial sends and receives end.
result<void> wait_or_fail(int fd, bool to_write, const wait_for_socket& wait) {
  WEIR_TRY(const bool ready, wait(fd, to_write));
  if (!ready) {
    return error(errc::timeout, "no answer came in time");
  }
  return {};
}

/// Fills `to` completely. A stream socket gives any number of bytes at a time, so this
/// reads what has arrived and waits for the rest. MSG_DONTWAIT instead of a blocking read
/// keeps the deadline in the hands of the caller.
result<void> receive_all(int fd, mutable_bytes to, const wait_for_socket& wait) {
  while (!to.empty()) {
    const ssize_t got = ::recv(fd, to.data(), to.size(), MSG_DONTWAIT);
    if (got > 0) {
      to = to.subspan(static_cast<std::size_t>(got));
    } else if (got == 0 || errno == ECONNRESET) {
      return closed();
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      WEIR_CHECK(wait_or_fail(fd, false, wait));
    } else if (errno != EINTR) {
      return system_error("receive from", "the socket of a child process", errno);
    }
  }
  return {};
}

}  // namespace

// Head and payload are sent by one call where the socket has space for both; a small
// request then costs one system call. After a partial send, the loop goes on behind the
// bytes that were taken, first of the head and then of the payload. MSG_NOSIGNAL makes a
// dead child an error instead of the signal SIGPIPE, which would end the run.
result<void> send_message(int fd, const wire::head& head, bytes_view payload,
                          const wait_for_socket& wait) {
  bytes_view first(std::as_bytes(std::span(&head, 1)));
  while (!first.empty() || !payload.empty()) {
    // The system only reads through these pointers.
    iovec parts[2] = {
        {const_cast<std::byte*>(first.data()), first.size()},       // NOLINT
        {const_cast<std::byte*>(payload.data()), payload.size()}};  // NOLINT
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    const ssize_t sent = ::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      const std::size_t of_head = std::min(static_cast<std::size_t>(sent), first.size());
      first = first.subspan(of_head);
      payload = payload.subspan(static_cast<std::size_t>(sent) - of_head);
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return closed();
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      WEIR_CHECK(wait_or_fail(fd, true, wait));
    } else if (errno != EINTR) {
      return system_error("send to", "the socket of a child process", errno);
    }
  }
  return {};
}

// The head is checked before its size is believed, and memory for the payload grows with
// the bytes that arrive. A child that announces the largest payload and sends nothing
// therefore takes one megabyte at most.
result<wire_message> receive_message(int fd, std::uint64_t max_bytes,
                                     const wait_for_socket& wait) {
  wire_message m;
  WEIR_CHECK(receive_all(fd, std::as_writable_bytes(std::span(&m.head, 1)), wait));
  if (m.head.magic != wire::magic || m.head.bytes > max_bytes) {
    return error(errc::corrupt,
                 fmt::format("cannot read a message: expected the first word {:#x} and a "
                             "payload of at most {} bytes, found {:#x} and {} bytes",
                             wire::magic, max_bytes, m.head.magic, m.head.bytes));
  }
  while (m.payload.size() != m.head.bytes) {
    const std::size_t before = m.payload.size();
    m.payload.resize(std::min<std::size_t>(m.head.bytes, before + growth));
    WEIR_CHECK(receive_all(fd, mutable_bytes(m.payload).subspan(before), wait));
  }
  return m;
}

}  // namespace weir::actors
