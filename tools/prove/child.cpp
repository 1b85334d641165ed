// SPDX-License-Identifier: Apache-2.0
/// @file
/// Child processes of this program.
#include "prove/child.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "weir/base/clock.hpp"

namespace weir::tools {

namespace {

constexpr const char* own_program = "/proc/self/exe";

error cannot_start(int reason) {
  return error(errc::io, fmt::format("cannot start a child process of this program: {}",
                                     std::strerror(reason)));
}

result<pid_t> start_child(const std::vector<std::string>& arguments,
                          const std::string& messages) {
  std::vector<std::string> words{"weir"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&files, 1, messages.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::posix_spawn_file_actions_adddup2(&files, 1, 2);
  pid_t child = -1;
  const int failed =
      ::posix_spawn(&child, own_program, &files, nullptr, pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&files);
  if (failed != 0) {
    return cannot_start(failed);
  }
  return child;
}

/// Waits until a child ends or some time has passed. Returns whether it has ended.
bool ends_within(pid_t child, double seconds) {
  const int handle = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
  const std::int64_t until = now_ns() + static_cast<std::int64_t>(seconds * 1e9);
  bool ended = false;
  for (std::int64_t left = until - now_ns(); left > 0 && !ended;
       left = until - now_ns()) {
    timespec time{left / 1'000'000'000, left % 1'000'000'000};
    pollfd ends{handle, POLLIN, 0};
    ended = ::ppoll(&ends, handle >= 0 ? 1 : 0, &time, nullptr) == 1;
  }
  if (handle >= 0) {
    ::close(handle);
  }
  return ended;
}

}  // namespace

result<child_end> run_child(const std::vector<std::string>& arguments,
                            const std::string& messages,
                            std::optional<double> kill_after_s) {
  const std::int64_t start = now_ns();
  WEIR_TRY(const pid_t child, start_child(arguments, messages));
  const bool kill = kill_after_s && !ends_within(child, *kill_after_s);
  if (kill) {
    ::kill(child, SIGKILL);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) {
      return cannot_start(errno);
    }
  }
  child_end end;
  end.seconds = static_cast<double>(now_ns() - start) * 1e-9;
  if (WIFEXITED(status)) {
    end.code = WEXITSTATUS(status);
    return end;
  }
  if (kill && WTERMSIG(status) == SIGKILL) {
    end.killed = true;
    return end;
  }
  return error(errc::interrupted,
               fmt::format("cannot wait for a child process: expected that it ends, "
                           "found signal {}",
                           WTERMSIG(status)))
      .hint(fmt::format("its messages are in {}", messages));
}

}  // namespace weir::tools
