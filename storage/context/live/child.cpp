// SPDX-License-Identifier: Apache-2.0
/// @file
/// Starts child processes that write lines, and ends them in any case.
///
/// The protocol consists of lines in both directions. The destructor closes the input of
/// the child, waits shortly, and then kills its process group.
#include "context/live/child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>  // NOLINT: the functions are those of POSIX
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "weir/base/clock.hpp"

extern char** environ;  // NOLINT: the name is that of POSIX

namespace weir::storage {

namespace {

/// A longer line ends the source.
constexpr std::size_t max_line = std::size_t{16} << 20;
/// Time for a child to end by itself, once its input is closed.
constexpr std::int64_t patience_ns = 200'000'000;

/// Moves a descriptor behind those that a child has.
///
/// posix_spawn duplicates descriptors onto 0 and 1 in the child; a source at one of
/// these numbers would be overwritten.
result<owned_descriptor> raised(owned_descriptor fd) {
  owned_descriptor out(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 10));
  if (out.get() < 0) {
    return system_error("copy", "a descriptor of a child process", errno);
  }
  return out;
}

}  // namespace

/// Standard input of the child is one end of a socket, so that a write to a child that
/// has gone gives an error and no signal. Its standard output is a pipe.
result<std::unique_ptr<line_child>> line_child::start(std::vector<std::string> command) {
  std::unique_ptr<line_child> made(
      new line_child(fmt::format("child \"{}\"", fmt::join(command, " "))));
  std::array<int, 2> pair{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) {
    return system_error("make", "the socket of a child process", errno);
  }
  made->in_ = owned_descriptor(pair[0]);
  WEIR_TRY(const owned_descriptor far_in, raised(owned_descriptor(pair[1])));
  if (::pipe2(pair.data(), O_CLOEXEC) != 0) {
    return system_error("make", "the pipe of a child process", errno);
  }
  made->out_ = owned_descriptor(pair[0]);
  // This end is read without waiting; the child's end is an ordinary pipe.
  ::fcntl(pair[0], F_SETFL, O_NONBLOCK);
  WEIR_TRY(const owned_descriptor far_out, raised(owned_descriptor(pair[1])));
  WEIR_CHECK(made->spawn(command, far_in.get(), far_out.get()));
  return made;
}

/// The child has a process group of its own, so that a signal of the terminal reaches the
/// run alone, which ends its children itself.
///
/// `in` and `out` become descriptors 0 and 1; standard error is shared. All others are
/// closed in the child, and signals have their default actions.
result<void> line_child::spawn(std::vector<std::string>& command, int in, int out) {
  std::vector<char*> arguments;
  for (std::string& one : command) {
    arguments.push_back(one.data());
  }
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in, 0);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  posix_spawnattr_t how;
  posix_spawnattr_init(&how);
  // A blocked signal would otherwise stay blocked in the child.
  sigset_t signals;
  sigfillset(&signals);
  posix_spawnattr_setsigdefault(&how, &signals);
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&how, &signals);
  posix_spawnattr_setpgroup(&how, 0);
  posix_spawnattr_setflags(
      &how, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  const int number =
      ::posix_spawnp(&pid_, arguments.front(), &actions, &how, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&how);
  if (number != 0) {
    pid_ = -1;
    return error(errc::source_unavailable, fmt::format("cannot start {}", name_))
        .because(system_error("start", command.front(), number));
  }
  return {};
}

/// A child that does not end by itself is killed, so that no process stays behind.
line_child::~line_child() {
  in_.close();
  out_.close();
  if (pid_ > 0 && !reap(patience_ns)) {
    ::kill(-pid_, SIGKILL);
    while (::waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
    }
  }
}

/// Waits for the end of the child. Returns whether it has ended.
///
/// `patience` is in nanoseconds. The loop sleeps, since no system call waits for a child
/// with a limit of time.
bool line_child::reap(std::int64_t patience) noexcept {
  for (const std::int64_t until = now_ns() + patience; pid_ > 0;) {
    const pid_t found = ::waitpid(pid_, &status_, WNOHANG);
    if (found == pid_ || (found < 0 && errno == ECHILD)) {
      // Its group may have further members.
      ::kill(-pid_, SIGKILL);  // what it has started
      pid_ = -1;
    } else if (now_ns() > until) {
      return false;
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  return true;
}

/// Makes the error for an output that ended too early, with the reason as far as it is
/// known.
error line_child::ended() {
  std::string how = "that it has closed its output";
  if (reap(patience_ns)) {
    how = WIFSIGNALED(status_)
              ? fmt::format("that signal {} ({}) has ended it", WTERMSIG(status_),
                            ::strsignal(WTERMSIG(status_)))
              : fmt::format("that it has ended with status {}", WEXITSTATUS(status_));
  }
  return error(errc::source_unavailable,
               fmt::format("cannot read {}: expected {{\"end\": true}} before the end of "
                           "its output, found {}",
                           name_, how))
      .hint("resume the run once the program works: it goes on at its last checkpoint");
}

/// Writes without waiting. The rest is kept for the next call.
void line_child::flush() noexcept {
  const ssize_t put =
      ::send(in_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (put > 0) {
    unsent_.erase(0, static_cast<std::size_t>(put));
  } else if (errno != EAGAIN && errno != EINTR) {
    unsent_.clear();  // nobody reads it; the end of the output tells why
  }
}

/// Appends a line feed. The line may be sent later, when the child reads.
void line_child::send(std::string_view line) {
  unsent_ += line;
  unsent_ += '\n';
  flush();
}

/// `scanned_` avoids that a long line is searched again with every piece.
std::optional<std::string> line_child::take_line() {
  const std::size_t end = text_.find('\n', scanned_);
  if (end == std::string::npos) {
    scanned_ = text_.size();
    return std::nullopt;
  }
  std::string line = text_.substr(begin_, end - begin_);
  begin_ = scanned_ = end + 1;
  return line;
}

// Reads in small pieces, so that at most one piece is left behind a line.
//
// Returns nothing if no line is complete within `wait_ms`. May be called by one thread.
result<std::optional<std::string>> line_child::next_line(int wait_ms) {
  if (auto line = take_line()) {
    return line;
  }
  std::array<pollfd, 2> both{{{out_.get(), POLLIN, 0}, {in_.get(), POLLOUT, 0}}};
  // The second descriptor is waited for only while something is unsent.
  const int found = ::poll(both.data(), unsent_.empty() ? 1 : 2, wait_ms);
  if (found > 0 && both[1].revents != 0) {
    flush();
  }
  if (found <= 0 || both[0].revents == 0) {
    return std::optional<std::string>();
  }
  std::array<std::byte, 16384> piece;
  WEIR_TRY(const feed_piece got, read_piece(out_.get(), piece, name_));
  // A last line without a line feed counts as incomplete.
  if (got.is == feed_piece::kind::end) {
    return ended();
  }
  // Lines that were returned are dropped only here, so a piece is moved once.
  text_.erase(0, std::exchange(begin_, 0));
  scanned_ = text_.size();
  text_ += as_text(bytes_view(piece).first(got.count));
  auto line = take_line();
  if (!line && text_.size() > max_line) {
    return error(
               errc::out_of_range,
               fmt::format("cannot read {}: expected lines of at most {} bytes, found a "
                           "longer one",
                           name_, max_line))
        .hint("send a long document as several documents");
  }
  return line;
}

}  // namespace weir::storage
