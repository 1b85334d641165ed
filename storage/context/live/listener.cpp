// SPDX-License-Identifier: Apache-2.0
/// @file
/// Listens on a socket, and reads the bytes of one peer at a time.
///
/// Without a token file, only addresses of this machine are allowed. With one, a peer
/// must send the token as its first line, and gets the number of bytes that are known.
#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "context/live/byte_feed.hpp"
#include "weir/base/clock.hpp"
#include "weir/base/file.hpp"

namespace weir::storage {

namespace {

/// Time within which a peer must send its token.
constexpr std::int64_t token_ns = 5'000'000'000;
/// A longer token is refused, since it must fit a buffer.
constexpr std::size_t max_token = 4096;
constexpr std::string_view unix_prefix = "unix:";
constexpr std::string_view tcp_prefix = "tcp:";

/// An address in the form of the system.
struct socket_address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  bool reachable = false;  ///< other machines may reach it
  std::string path;        ///< of a Unix socket
};

/// Copies a structure of the system into the common one.
template <class T>
void set(socket_address& to, const T& from) {
  std::memcpy(&to.storage, &from, sizeof(from));
  to.size = sizeof(from);
}

/// The text lists all forms.
error bad_address(const std::string& text) {
  return error(errc::invalid_argument,
               fmt::format("cannot listen at \"{}\": expected unix:PATH of at most {} "
                           "bytes, tcp:PORT, or tcp:HOST:PORT with an address in digits, "
                           "found another form",
                           text, sizeof(sockaddr_un::sun_path) - 1));
}

/// The path must fit the structure with its NUL.
result<socket_address> parse_unix(const std::string& text) {
  socket_address out;
  out.path = text.substr(unix_prefix.size());
  sockaddr_un un{};
  if (out.path.empty() || out.path.size() >= sizeof(un.sun_path)) {
    return bad_address(text);
  }
  un.sun_family = AF_UNIX;
  std::copy(out.path.begin(), out.path.end(), std::begin(un.sun_path));
  set(out, un);
  return out;
}

/// The host must be written in digits, so that no name is looked up. Without one, only
/// this machine can connect.
result<socket_address> parse_tcp(const std::string& text) {
  const std::string rest = text.substr(tcp_prefix.size());
  const std::size_t colon = rest.rfind(':');
  std::string host = colon == std::string::npos ? "localhost" : rest.substr(0, colon);
  const std::string digits = colon == std::string::npos ? rest : rest.substr(colon + 1);
  std::uint16_t port = 0;
  const auto [end, problem] =
      std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (problem != std::errc() || end != digits.data() + digits.size()) {
    return bad_address(text);
  }
  // Port 0 lets the system choose.
  if (host == "localhost") {
    host = "127.0.0.1";
  }
  socket_address out;
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(port);
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  if (::inet_pton(AF_INET, host.c_str(), &four.sin_addr) == 1) {
    // Addresses that begin with 127 stay on this machine.
    out.reachable = ntohl(four.sin_addr.s_addr) >> 24 != 127;
    set(out, four);
    return out;
  }
  // IPv6 addresses are in brackets, since they contain colons.
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (brackets && ::inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(),
                              &six.sin6_addr) == 1) {
    out.reachable = !IN6_IS_ADDR_LOOPBACK(&six.sin6_addr);
    set(out, six);
    return out;
  }
  return bad_address(text);
}

/// The prefix decides about the kind.
result<socket_address> parse_address(const std::string& text) {
  if (text.starts_with(unix_prefix)) {
    return parse_unix(text);
  }
  return text.starts_with(tcp_prefix) ? parse_tcp(text)
                                      : result<socket_address>(bad_address(text));
}

/// Returns the address of a TCP socket with the port that the system has chosen.
///
/// For a Unix socket it is the text that was given.
std::string address_text(int fd, const std::string& given) {
  sockaddr_storage found{};
  socklen_t size = sizeof(found);
  std::array<char, INET6_ADDRSTRLEN> host{};
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&found), &size) != 0) {
    return given;
  }
  if (found.ss_family == AF_INET) {
    sockaddr_in four{};
    std::memcpy(&four, &found, sizeof(four));
    ::inet_ntop(AF_INET, &four.sin_addr, host.data(), host.size());
    return fmt::format("tcp:{}:{}", host.data(), ntohs(four.sin_port));
  }
  if (found.ss_family == AF_INET6) {
    sockaddr_in6 six{};
    std::memcpy(&six, &found, sizeof(six));
    ::inet_ntop(AF_INET6, &six.sin6_addr, host.data(), host.size());
    return fmt::format("tcp:[{}]:{}", host.data(), ntohs(six.sin6_port));
  }
  return given;
}

/// The token is the first line of the file, without its line feed.
result<std::string> read_token(const std::string& path) {
  auto bytes = read_file(posix_file_system(), path);
  if (!bytes) {
    return error(errc::source_unavailable,
                 fmt::format("cannot read the token file \"{}\"", path))
        .because(std::move(bytes.error()));
  }
  std::string token(as_text(*bytes));
  token.resize(std::min(token.find('\n'), token.size()));
  if (token.empty() || token.size() > max_token) {
    return error(errc::source_unavailable,
                 fmt::format("cannot use the token file \"{}\": expected a first line of "
                             "1 to {} bytes, found {}",
                             path, max_token, token.size()));
  }
  return token;
}

/// Compares texts of one length in a time that does not depend on where they differ.
///
/// Otherwise the time of an answer would tell how many bytes of a guess are right.
bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned different = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    different |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return different == 0;
}

/// A listening socket. A socket file is removed with the object.
///
/// One peer is served at a time; others wait in the queue of the system.
class listener final : public byte_feed {
 public:
  listener(owned_descriptor socket, std::string name, const live_options& options,
           std::string token, std::string path)
      : socket_(std::move(socket)),
        name_(std::move(name)),
        path_(std::move(path)),
        expected_(token.empty() ? token : token + "\n"),
        turns_(options.turns) {}
  listener(const listener&) = delete;
  listener& operator=(const listener&) = delete;
  ~listener() override {
    if (!path_.empty()) {
      ::unlink(path_.c_str());
    }
  }
  bool asks() const override { return !expected_.empty(); }

  // Each call takes one step: accept a peer, read its token, or read its bytes. `taken`
  // is the number of bytes that are durable here.
  result<feed_piece> receive(std::uint64_t taken, mutable_bytes to,
                             int wait_ms) override {
    const int fd = peer_.get() < 0 ? socket_.get() : peer_.get();
    WEIR_TRY(const bool there, wait_readable(fd, wait_ms, name_));
    if (peer_.get() >= 0 && !trusted_) {
      check_token(taken, there);
      return feed_piece{};
    }
    if (!there) {
      return feed_piece{};
    }
    if (peer_.get() < 0) {
      accept_peer();
      return feed_piece{};
    }
    auto got = read_piece(fd, to, name_);
    if (got && got->is != feed_piece::kind::end) {
      heard_ = heard_ || got->is == feed_piece::kind::bytes;
      return got;
    }
    // A peer that has said something ends the source, or a turn.
    return heard_ ? leave(std::move(got)) : ignore_peer();
  }

 private:
  /// Closes a peer that has sent nothing, such as a program that looks whether anybody
  /// listens.
  feed_piece ignore_peer() {
    peer_.close();
    return feed_piece{};
  }
  /// Closes a peer that has ended or cannot be read any more.
  ///
  /// Without turns, the end of the peer is the end of the text, unless it failed and can
  /// be asked to go on.
  result<feed_piece> leave(result<feed_piece> got) {
    if (!got && !turns_ && !asks()) {
      return got;
    }
    peer_.close();
    const bool waits = !got || turns_;  // another peer may go on
    return feed_piece{waits ? feed_piece::kind::left : feed_piece::kind::end, 0};
  }
  // If nobody can be accepted, `peer_` stays empty.
  void accept_peer() {
    peer_ = owned_descriptor(
        ::accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    trusted_ = expected_.empty();
    heard_ = false;
    sent_.clear();
    accepted_ns_ = now_ns();
  }
  /// Reads the line of the token and nothing behind it. A peer that sends another line,
  /// closes, or takes too long is closed.
  void check_token(std::uint64_t taken, bool there) {
    std::array<char, max_token + 1> piece;
    const ssize_t got =
        there ? ::read(peer_.get(), piece.data(), expected_.size() - sent_.size()) : -1;
    if (got > 0) {
      sent_.append(piece.data(), static_cast<std::size_t>(got));
    }
    if (sent_.size() == expected_.size()) {
      trusted_ = equal_in_constant_time(sent_, expected_);
      // Nothing more is read than the token, so no byte of the text is lost.
      heard_ = trusted_;  // what follows the token may be empty
      if (trusted_) {
        const std::string answer = fmt::format("{{\"from\": {}}}\n", taken);
        ::send(peer_.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
        return;
      }
    }
    // A line that is too short or another one.
    const bool wrong = sent_.size() == expected_.size() || sent_.ends_with('\n');
    const bool closed = there && got == 0;
    if (wrong || closed || now_ns() - accepted_ns_ > token_ns) {
      peer_.close();
    }
  }

  owned_descriptor socket_;
  owned_descriptor peer_;
  std::string name_;
  std::string path_;
  std::string expected_;  ///< token and newline; empty: none is asked for
  std::string sent_;      ///< what the peer has sent of it
  bool trusted_ = false;
  bool heard_ = false;  ///< the peer has sent its token, or a byte if none is asked for
  bool turns_;
  std::int64_t accepted_ns_ = 0;
};

/// Removes a socket file behind which nobody listens any more. Other files are refused,
/// because they hold what somebody has written.
///
/// A connection attempt tells whether somebody listens.
result<void> remove_stale(const socket_address& at) {
  struct stat about {};
  if (::lstat(at.path.c_str(), &about) != 0) {
    return {};  // if the path cannot be reached, `bind` returns the better error
  }
  if (!S_ISSOCK(about.st_mode)) {
    return error(errc::source_unavailable,
                 fmt::format("cannot listen at \"unix:{}\": expected a path without a "
                             "file or with a socket, found another file",
                             at.path))
        .hint("choose another path for the socket");
  }
  const owned_descriptor probe(
      ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  // Refused: the file is a remainder of a process that has ended.
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&at.storage), at.size) !=
          0 &&
      errno == ECONNREFUSED) {
    ::unlink(at.path.c_str());
  }
  return {};
}

/// Returns the error of a system call. `number` is its errno, which the caller reads
/// before any other call can change it.
error cannot_listen(std::string_view action, const std::string& address, int number) {
  return error(errc::source_unavailable, fmt::format("cannot listen at \"{}\"", address))
      .because(system_error(std::string(action).c_str(), address, number));
}

}  // namespace

/// Everything that can be wrong with the settings is found before the socket is made.
result<opened_listener> make_listener_feed(const std::string& address,
                                           const live_options& options) {
  WEIR_TRY(const socket_address at, parse_address(address));
  std::string token;
  if (!options.token_file.empty()) {
    WEIR_TRY(token, read_token(options.token_file));
  } else if (at.reachable) {
    return error(errc::invalid_argument,
                 fmt::format("cannot listen at \"{}\": expected a token file, because "
                             "other machines can reach the address, found none",
                             address))
        .hint("set token_file, or listen at tcp:PORT for this machine alone");
  }
  if (!at.path.empty()) {
    WEIR_CHECK(remove_stale(at));
  }
  owned_descriptor fd(
      ::socket(at.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) {
    return cannot_listen("make a socket for", address, errno);
  }
  const int on = 1;
  // A run that is started again may use the port at once.
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  // Set before `bind`, which creates the file with these rights.
  ::fchmod(fd.get(), 0600);  // a socket file is for its owner
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&at.storage), at.size) != 0 ||
      ::listen(fd.get(), 8) != 0) {
    return cannot_listen("bind", address, errno);
  }
  opened_listener out;
  // The address names the port, even if it was chosen by the system.
  out.address = address_text(fd.get(), address);
  out.feed = std::make_unique<listener>(std::move(fd), out.address, options,
                                        std::move(token), at.path);
  return out;
}

}  // namespace weir::storage
