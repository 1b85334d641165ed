// SPDX-License-Identifier: Apache-2.0
/// @file
/// Starts child processes by posix_spawn, and ends them in any case.
#include "process/child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>  // NOLINT: the functions are those of POSIX
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include <fmt/format.h>

#include "process/messages.hpp"
#include "weir/base/clock.hpp"

extern char** environ;  // NOLINT: the name is that of POSIX

namespace weir::actors {
namespace {

/// Bytes of the last words that an error shows.
constexpr std::size_t max_words = 1500;
/// Time for a child to end by itself.
/// A child gets this long to end after it was asked, before it is killed.
constexpr std::int64_t patience_ns = 1'000'000'000;

/// A descriptor that is closed with the object.
/// Errors on the way to a started child then leave no descriptor open in the run.
class owned_descriptor {
 public:
  explicit owned_descriptor(int fd = -1) : fd_(fd) {}
  owned_descriptor(const owned_descriptor&) = delete;
  owned_descriptor& operator=(const owned_descriptor&) = delete;
  ~owned_descriptor() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
  /// Moves the descriptor behind those that a child has.
  /// A descriptor of -1 stands for a failed copy; the start of the child then fails.
  void raise() noexcept {
    constexpr int behind = 10;
    const int high = ::fcntl(fd_, F_DUPFD_CLOEXEC, behind);
    ::close(fd_);
    fd_ = high;
  }

 private:
  int fd_;
};

/// Returns how a process has ended, as the part of a sentence behind "found".
std::string describe_status(int status) {
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    return fmt::format("that signal {} ({}) has ended it", number, ::strsignal(number));
  }
  return fmt::format("that it has ended with status {}", WEXITSTATUS(status));
}

/// Lets the child have the default treatment of signals and a group of its own, so that a
/// signal of the terminal reaches the run alone, which ends its children itself.
void set_attributes_of(posix_spawnattr_t& how) {
  sigset_t all;
  sigfillset(&all);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_init(&how);
  posix_spawnattr_setsigdefault(&how, &all);
  posix_spawnattr_setsigmask(&how, &none);
  posix_spawnattr_setpgroup(&how, 0);
  posix_spawnattr_setflags(
      &how, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
}

}  // namespace

// A child is joined to the run by three things: a socket for requests and answers, the
// shared memory for items, and a pipe that takes what it prints. The ends of the child
// are moved behind the numbers 3 and 4 first: `spawn` copies them to fixed numbers, and a
// copy must not overwrite a descriptor that is still to be copied.
result<std::unique_ptr<child_process>> child_process::start(child_options options) {
  std::unique_ptr<child_process> made(new child_process(std::move(options)));
  std::array<int, 2> pair{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) {
    return system_error("make", "the socket of a child process", errno);
  }
  made->socket_ = pair[0];
  owned_descriptor far(pair[1]);
  if (::pipe2(pair.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    return system_error("make", "the pipe of a child process", errno);
  }
  made->words_ = pair[0];
  owned_descriptor words(pair[1]);
  ::fcntl(words.get(), F_SETFL, 0);  // the child may wait while nobody reads
  far.raise();
  words.raise();
  WEIR_CHECK(made->spawn(far.get(), words.get()));
  return made;
}

// The child inherits nothing but these five descriptors: standard input is empty, output
// and errors go into the pipe, and everything above the shared memory is closed. Files
// that the program of the user has open therefore do not stay open in children.
result<void> child_process::spawn(int socket, int words) {
  owned_descriptor memory(::fcntl(options_.memory, F_DUPFD_CLOEXEC, 10));
  std::vector<char*> arguments;
  for (std::string& one : options_.command) {
    arguments.push_back(one.data());
  }
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  for (const auto& [from, to] : {std::pair{words, 1},
                                 {words, 2},
                                 {socket, wire::socket_fd},
                                 {memory.get(), wire::memory_fd}}) {
    posix_spawn_file_actions_adddup2(&actions, from, to);
  }
  posix_spawn_file_actions_addclosefrom_np(&actions, wire::memory_fd + 1);
  posix_spawnattr_t how;
  set_attributes_of(how);
  const int number =
      ::posix_spawnp(&pid_, arguments.front(), &actions, &how, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&how);
  if (number != 0) {
    pid_ = -1;
    return system_error(
        fmt::format("start the child process of stage \"{}\",", options_.stage),
        options_.command.front(), number);
  }
  return {};
}

/// Waits for the socket, and takes what the child says meanwhile.
/// A child whose pipe is full would stop before it answers, so its output is read here,
/// too.
result<bool> child_process::wait(int fd, bool to_write, std::int64_t until_ns) {
  const auto events = static_cast<short>(to_write ? POLLOUT : POLLIN);
  static_cast<void>(short_wait_([&] {
    pollfd one{fd, events, 0};
    return ::poll(&one, 1, 0) > 0;
  }));
  while (true) {
    const std::int64_t left = until_ns - now_ns();
    // A timeout of at least 1 ms: rounding down to 0 would make the last millisecond
    // spin. Behind the deadline, an answer that is there still counts.
    std::array<pollfd, 2> both{{{fd, events, 0}, {words_, POLLIN, 0}}};
    // A longer wait than a timeout can express is several waits.
    const std::int64_t ms =
        left > 0 ? std::min<std::int64_t>(left / 1'000'000 + 1, INT_MAX) : 0;
    const int ready = ::poll(both.data(), words_ >= 0 ? 2 : 1, static_cast<int>(ms));
    if (ready < 0 && errno != EINTR) {
      return system_error("wait for", "a child process", errno);
    }
    // The output is taken first, because an answer ends the wait and more output may
    // follow.
    if (ready > 0 && both[1].revents != 0) {
      hear();
    }
    if (ready > 0 && both[0].revents != 0) {
      return true;
    }
    if (left <= 0) {
      return false;
    }
  }
}

/// Takes what the child has said, and keeps its end. Reads a bounded number of bytes.
/// The bound keeps a child that prints without end from holding the run here.
void child_process::hear() noexcept {
  std::array<char, 4096> part{};
  for (int times = 0; times < 64 && words_ >= 0; ++times) {
    const ssize_t got = ::read(words_, part.data(), part.size());
    if (got > 0) {
      heard_.append(part.data(), static_cast<std::size_t>(got));
      show(part.data(), static_cast<std::size_t>(got));
      // Twice the size is kept before the front is cut, so that not every read moves the
      // text.
      if (heard_.size() > 2 * max_words) {
        heard_.erase(0, heard_.size() - max_words);
      }
    } else if (got == 0) {
      ::close(words_);
      words_ = -1;
    } else {
      return;
    }
  }
}

/// Passes on what the child has said, so that a stage can print for its author. A child
/// that says a lot is cut short, because nobody could read the messages of the run then.
void child_process::show(const char* text, std::size_t bytes) noexcept {
  constexpr std::size_t max_shown = std::size_t{64} << 10;
  if (shown_ >= max_shown) {
    return;
  }
  const std::size_t count = std::min(bytes, max_shown - shown_);
  shown_ += count;
  static_cast<void>(!::write(STDERR_FILENO, text, count));
  // The note appears once: `shown_` does not grow after it.
  if (shown_ == max_shown) {
    const std::string_view end = "\n(the rest of what the stage prints is not shown)\n";
    static_cast<void>(!::write(STDERR_FILENO, end.data(), end.size()));
  }
}

// Called after the process has ended or was killed, so what it has said is in the pipe.
std::string child_process::last_words() {
  hear();
  while (heard_.ends_with('\n')) {
    heard_.pop_back();
  }
  if (heard_.size() > max_words) {
    heard_.erase(0, heard_.size() - max_words);
  }
  return heard_.empty() ? std::string("; it has said nothing")
                        : "; its last words: " + heard_;
}

/// Waits for the end of the process. Returns whether it has ended.
/// WNOHANG and short sleeps instead of a blocking wait, because the wait has a deadline.
bool child_process::reap(std::int64_t patience) noexcept {
  const std::int64_t until = now_ns() + patience;
  while (!ended_ && pid_ > 0) {
    const pid_t found = ::waitpid(pid_, &status_, WNOHANG);
    if (found == pid_ || (found < 0 && errno == ECHILD)) {
      ended_ = true;
      break;
    }
    if (now_ns() > until) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// The loop repeats the wait after a signal. ECHILD also ends it: a program that ignores
// SIGCHLD has no status to fetch.
void child_process::kill() noexcept {
  if (!ended_ && pid_ > 0) {
    ::kill(pid_, SIGKILL);
    while (!ended_) {
      const pid_t found = ::waitpid(pid_, &status_, 0);
      ended_ = found == pid_ || (found < 0 && errno != EINTR);
    }
  }
}

/// Explains why a request has no answer, and ends the child.
/// The three causes need different treatment: a child that is silent is killed at once; a
/// child that has closed its socket is about to end and gets time, so that the error can
/// show its status; a child that breaks the rules of the wire cannot be trusted any more.
error child_process::lost(error cause) {
  if (options_.died) {
    options_.died->store(true);
  }
  std::string found;
  // The code of the cause stays: callers tell a dead child (`abandoned`) from a wrong
  // one.
  errc code = cause.code();
  if (code == errc::timeout) {
    kill();
    found = fmt::format("none for {} s, so that it was ended",
                        options_.deadline_ns / 1'000'000'000);
  } else if (code == errc::abandoned) {
    if (reap(patience_ns)) {
      found = describe_status(status_);
    } else {
      kill();
      found = "that it has closed its socket, so that it was ended";
    }
  } else {
    kill();
    found = "an answer that does not keep to the wire, so that it was ended";
  }
  const std::string words = last_words();
  error e(code, fmt::format("cannot go on with the child process {} of the stage \"{}\": "
                            "expected an answer, found {}{}",
                            pid_, options_.stage, found, words));
  error whole = code == errc::corrupt ? error(std::move(e).because(std::move(cause)))
                                      : std::move(e);
  return std::move(whole).hint(
      "`restarts` of the run lets it go back to its last checkpoint and start the "
      "process again");
}

/// Ends the child because its answer breaks a rule of the wire; see `lost`.
error child_process::broken(const error& cause) {
  return lost(error(errc::corrupt, cause.message()));
}

// One request is under way at a time, so the sequence number alone shows whether an
// answer belongs to it. The deadline covers sending and receiving together: a child that
// does not read is as stuck as one that does not answer. Every failure of the connection
// goes through `lost`, which ends the child and adds its last words.
result<wire_message> child_process::ask(wire::kind kind, std::uint32_t count,
                                        bytes_view payload, std::uint64_t max_bytes) {
  const std::int64_t until = now_ns() + options_.deadline_ns;
  const wait_for_socket waits = [&](int fd, bool to_write) {
    return wait(fd, to_write, until);
  };
  if (ended_) {
    return lost(error(errc::abandoned, "the child process has ended before"));
  }
  wire::head head{};
  head.magic = wire::magic;
  head.kind = static_cast<std::uint32_t>(kind);
  head.sequence = ++sequence_;
  head.count = count;
  head.bytes = payload.size();
  if (auto sent = send_message(socket_, head, payload, waits); !sent) {
    return lost(std::move(sent.error()));
  }
  auto answer = receive_message(socket_, max_bytes, waits);
  if (!answer) {
    return lost(std::move(answer.error()));
  }
  const wire::head& got = answer->head;
  if (got.kind != head.kind + wire::answer || got.sequence != head.sequence) {
    return broken(error(
        errc::corrupt,
        fmt::format("expected the answer {} to the request {}, found {} to {}",
                    head.kind + wire::answer, head.sequence, got.kind, got.sequence)));
  }
  // A request with items reports a failed item through its count and flags, and the
  // caller continues with the next item. For all other requests a failure is the whole
  // answer.
  const bool of_items =
      kind == wire::kind::work || kind == wire::kind::fill || kind == wire::kind::write;
  if ((got.flags & wire::failed) != 0 && !of_items) {
    return error_of(as_text(answer->payload));
  }
  return answer;
}

// The request to end is sent without waiting: a child that is stuck does not read it, and
// is killed after `patience_ns`. Closing the socket has the same effect on a child that
// reads, because it then finds the run gone.
void child_process::end() noexcept {
  if (socket_ >= 0 && !ended_ && pid_ > 0) {
    wire::head head{};
    head.magic = wire::magic;
    head.kind = static_cast<std::uint32_t>(wire::kind::end);
    head.sequence = ++sequence_;
    static_cast<void>(::send(socket_, &head, sizeof(head), MSG_DONTWAIT | MSG_NOSIGNAL));
  }
  // The descriptors are closed before the wait: a child that reads or prints then finds
  // the end of the run and stops.
  for (int* fd : {&socket_, &words_}) {
    if (*fd >= 0) {
      ::close(std::exchange(*fd, -1));
    }
  }
  if (!reap(patience_ns)) {
    kill();
  }
}

child_process::~child_process() {
  end();
}

// The program lies beside `weir` in a build tree and in libexec of an installation. A
// program of a user lies in neither, so up to four folders above it are tried as well.
result<std::vector<std::string>> stage_host_command() {
  namespace fs = std::filesystem;
  // The variable is for tests and for installations with other folders.
  if (const char* given = std::getenv("WEIR_STAGE_HOST");  // NOLINT: read once, early
      given != nullptr && *given != '\0') {
    return std::vector<std::string>{given};
  }
  std::error_code failure;
  fs::path folder = fs::read_symlink("/proc/self/exe", failure).parent_path();
  for (int level = 0; level < 4 && !failure; ++level) {
    for (const char* place :
         {"weir-stage-host", "actors/weir-stage-host", "libexec/weir/weir-stage-host"}) {
      if (fs::path found = folder / place; fs::exists(found, failure)) {
        return std::vector<std::string>{found.string()};
      }
    }
    folder = folder.parent_path();
  }
  return error(errc::not_found,
               "cannot start a child process for a stage: expected the program "
               "weir-stage-host beside this program or in libexec/weir, found none")
      .hint("set the environment variable WEIR_STAGE_HOST to its path");
}

}  // namespace weir::actors
