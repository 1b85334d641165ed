// SPDX-License-Identifier: Apache-2.0
/// @file
/// Child processes of this program.
///
/// A child is the same program with other arguments. It is started by `posix_spawn` and
/// not by `fork`, since this process may have threads and much memory.
#include "prove/child.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "weir/base/clock.hpp"

namespace weir::tools {

namespace {

/// Time between two questions whether a child is ready to be killed. @units{seconds}
constexpr double look_s = 0.002;
/// Names the running program even if its file has been moved or replaced since.
constexpr const char* own_program = "/proc/self/exe";

/// Makes the error for a failure of the operating system.
error cannot_start(int reason) {
  return error(errc::io, fmt::format("cannot start a child process of this program: {}",
                                     std::strerror(reason)));
}

/// Starts a child whose output goes to a file. Its standard input is empty.
result<pid_t> start_child(const std::vector<std::string>& arguments,
                          const std::string& messages) {
  // `posix_spawn` takes pointers to texts that it may change, hence the copies.
  std::vector<std::string> words{"weir"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  // The order matters: descriptor 1 must be open before it is copied to 2.
  ::posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&files, 1, messages.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::posix_spawn_file_actions_adddup2(&files, 1, 2);
  pid_t child = -1;
  // A failure to open the files is reported here as well, by the value that is returned.
  const int failed =
      ::posix_spawn(&child, own_program, &files, nullptr, pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&files);
  if (failed != 0) {
    return cannot_start(failed);
  }
  return child;
}

/// Returns whether a child has ended. It stays to be collected.
bool has_ended(pid_t child) {
  siginfo_t found{};
  return ::waitid(P_PID, static_cast<id_t>(child), &found, WEXITED | WNOHANG | WNOWAIT) ==
             0 &&
         found.si_pid == child;
}

/// Waits until a child ends or some time has passed. Returns whether it has ended.
bool ends_within(pid_t child, double seconds) {
  // A handle becomes readable when its process ends. Without it (kernels before 5.3, or a
  // sandbox that forbids the call) the handle is negative, and the child is asked for
  // again and again.
  const int handle = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
  const std::int64_t until = now_ns() + static_cast<std::int64_t>(seconds * 1e9);
  bool ended = false;
  // `ppoll` may return early because of a signal, so the time that is left is computed
  // anew.
  for (std::int64_t left = until - now_ns(); left > 0 && !ended;
       left = until - now_ns()) {
    // With no handle, zero descriptors are polled, which is a plain wait.
    left = handle >= 0 ? left : std::min(left, static_cast<std::int64_t>(look_s * 1e9));
    timespec time{left / 1'000'000'000, left % 1'000'000'000};
    pollfd ends{handle, POLLIN, 0};
    ended = ::ppoll(&ends, handle >= 0 ? 1 : 0, &time, nullptr) == 1 ||
            (handle < 0 && has_ended(child));
  }
  if (handle >= 0) {
    ::close(handle);
  }
  return ended;
}

/// Waits for the instant of a kill. Returns false if the child ends before.
bool reaches(pid_t child, const kill_plan& planned) {
  // Without a condition this is skipped, and the kill comes after the given time.
  while (planned.ready && !planned.ready()) {
    if (ends_within(child, look_s)) {
      return false;
    }
  }
  return !ends_within(child, planned.after_s);
}

}  // namespace

result<child_end> run_child(const std::vector<std::string>& arguments,
                            const std::string& messages,
                            const std::optional<kill_plan>& planned) {
  const std::int64_t start = now_ns();
  WEIR_TRY(const pid_t child, start_child(arguments, messages));
  // A child that ended before its kill is not a killed one. It is collected as usual.
  const bool kill = planned && reaches(child, *planned);
  if (kill) {
    // No handler can see this signal, which is what a loss of power looks like to a
    // program.
    ::kill(child, SIGKILL);
  }
  int status = 0;
  // Always collects the child, so that none stays behind as a zombie.
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) {
      return cannot_start(errno);
    }
  }
  child_end end;
  end.seconds = static_cast<double>(now_ns() - start) * 1e-9;
  // The child may have ended by itself between the decision and the signal.
  if (WIFEXITED(status)) {
    end.code = WEXITSTATUS(status);
    return end;
  }
  if (kill && WTERMSIG(status) == SIGKILL) {
    end.killed = true;
    return end;
  }
  // Another signal ended the child: a crash, or a kill from outside.
  return error(errc::interrupted,
               fmt::format("cannot wait for a child process: expected that it ends, "
                           "found signal {}",
                           WTERMSIG(status)))
      .hint(fmt::format("its messages are in {}", messages));
}

}  // namespace weir::tools
