// SPDX-License-Identifier: Apache-2.0
/// @file
/// A child process whose output is read to the end.
///
/// It is used for short commands of the interpreter, which print the description of a
/// file. A command that prints too much, or does not end, is killed.
#include "weir/actors/child_output.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>
#include <utility>

namespace weir::actors {
namespace {

/// Is not changed when the time of the system is set.
using clock = std::chrono::steady_clock;

/// A pipe whose ends are closed when the object ends.
/// Both are closed in a child that is started elsewhere in the meantime (O_CLOEXEC).
class pipe_ends {
 public:
  pipe_ends() = default;
  pipe_ends(const pipe_ends&) = delete;
  pipe_ends& operator=(const pipe_ends&) = delete;
  ~pipe_ends() {
    close_end(0);
    close_end(1);
  }
  /// Makes the pipe. @pre It is closed.
  result<void> open() {
    return ::pipe2(ends_.data(), O_CLOEXEC) == 0 ? result<void>()
                                                 : system_error("make", "a pipe", errno);
  }
  /// 0 is the end to read from, 1 the one to write to.
  [[nodiscard]] int end(std::size_t which) const { return ends_[which]; }
  /// Closes an end once; later calls do nothing.
  void close_end(std::size_t which) {
    if (ends_[which] >= 0) {
      ::close(std::exchange(ends_[which], -1));
    }
  }

 private:
  // -1 stands for an end that is closed.
  std::array<int, 2> ends_{-1, -1};
};

/// A process that is killed and reaped when the object ends, unless it was reaped before.
class running_child {
 public:
  running_child() = default;
  running_child(const running_child&) = delete;
  running_child& operator=(const running_child&) = delete;
  // The child may be in an endless loop, so it is not asked.
  ~running_child() {
    // A process that is not reaped would stay as a zombie.
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      static_cast<void>(reap(0));
    }
  }
  /// `out` and `errors` become the standard output and error output of the child. @pre No
  /// process was started before.
  result<void> start(const std::vector<std::string>& command, int out, int errors) {
    // The words refer to the strings of the command.
    std::vector<char*> words;
    for (const std::string& word : command) {
      words.push_back(const_cast<char*>(word.c_str()));  // posix_spawn changes nothing
    }
    words.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    // The child must not read from the terminal.
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out, 1);
    posix_spawn_file_actions_adddup2(&actions, errors, 2);
    // The environment is that of this process.
    const int failed =
        ::posix_spawn(&process_, words.front(), &actions, nullptr, words.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) {
      // It may have been set by the failed call.
      process_ = -1;
      return system_error("start", command.front(), failed);
    }
    return {};
  }
  /// Returns whether the process has ended; without `WNOHANG` it waits for that.
  bool reap(int options) {
    pid_t ended = 0;
    do {
      ended = ::waitpid(process_, &status_, options);
    } while (ended < 0 && errno == EINTR);
    // A failed wait means that there is no such child any more.
    if (ended != 0) {
      process_ = -1;
    }
    return ended != 0;
  }
  /// @pre The child was reaped.
  [[nodiscard]] int status() const { return status_; }

 private:
  pid_t process_ = -1;
  int status_ = 0;
};

/// Appends what a pipe has. Returns false at its end.
/// After `poll` has reported the pipe, the read does not block.
bool drain_output(int descriptor, std::string& to) {
  std::array<char, 65536> piece;
  const ssize_t n = ::read(descriptor, piece.data(), piece.size());
  if (n > 0) {
    to.append(piece.data(), static_cast<std::size_t>(n));
  }
  // An error other than an interrupted call counts as the end.
  return n > 0 || (n < 0 && errno == EINTR);
}

/// The caller returns it, and the destructor of the child kills the process.
error too_late(const std::string& program, std::chrono::milliseconds limit) {
  return error(errc::timeout, fmt::format("cannot wait for \"{}\": expected its end "
                                          "within {} s, found it still running",
                                          program, limit.count() / 1000));
}

/// Reads both pipes until they are closed.
/// The output must fit as a whole; of the error output only the end is kept, because the
/// last lines of a traceback say what failed.
result<void> read_all(const std::string& program, pipe_ends& out, pipe_ends& errors,
                      child_output& into, const child_limits& limits,
                      clock::time_point end) {
  // A pipe that is closed has the descriptor -1.
  while (out.end(0) >= 0 || errors.end(0) >= 0) {
    // The time of the whole command, not of each wait.
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - clock::now());
    // `poll` ignores an entry with the descriptor -1, which is a pipe that was closed.
    std::array<pollfd, 2> waiting{{{out.end(0), POLLIN, 0}, {errors.end(0), POLLIN, 0}}};
    if (left.count() <= 0 ||
        ::poll(waiting.data(), waiting.size(), static_cast<int>(left.count())) == 0) {
      return too_late(program, limits.time);
    }
    // POLLHUP is an event too; the read then returns 0 and the pipe is closed.
    if (waiting[0].revents != 0 && !drain_output(out.end(0), into.out)) {
      out.close_end(0);
    }
    if (waiting[1].revents != 0 && !drain_output(errors.end(0), into.error)) {
      errors.close_end(0);
    }
    // Checked after each piece, so at most one piece more is kept.
    if (into.out.size() > limits.bytes) {
      return error(errc::out_of_range,
                   fmt::format("cannot read the output of \"{}\": expected at most {} "
                               "bytes, found more",
                               program, limits.bytes));
    }
    if (into.error.size() > limits.error_bytes) {
      into.error.erase(0, into.error.size() - limits.error_bytes);
    }
  }
  return {};
}

}  // namespace

// The program of `command` must be a path, because posix_spawn does not search for it.
result<child_output> run_child(const std::vector<std::string>& command,
                               const child_limits& limits) {
  // Both pipes and the end of the process share this time.
  const clock::time_point end = clock::now() + limits.time;
  pipe_ends out;
  pipe_ends errors;
  WEIR_CHECK(out.open());
  WEIR_CHECK(errors.open());
  running_child child;
  // From here on, every return kills the child unless it has ended.
  WEIR_CHECK(child.start(command, out.end(1), errors.end(1)));
  // The ends of the child must be closed here, or the pipes would never report their end.
  out.close_end(1);
  errors.close_end(1);
  child_output all;
  WEIR_CHECK(read_all(command.front(), out, errors, all, limits, end));
  // It may live on with closed descriptors.
  while (!child.reap(WNOHANG)) {
    if (clock::now() > end) {
      return too_late(command.front(), limits.time);
    }
    // Waits a millisecond without a descriptor.
    static_cast<void>(::poll(nullptr, 0, 1));
  }
  // A process can also end by a signal.
  all.exited = WIFEXITED(child.status());
  all.status = all.exited ? WEXITSTATUS(child.status()) : WTERMSIG(child.status());
  return all;
}

}  // namespace weir::actors
