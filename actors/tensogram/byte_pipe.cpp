// SPDX-License-Identifier: Apache-2.0
/// @file
/// Pipes that wait by poll(2). Only descriptors that are opened here are non-blocking:
/// standard input and output may be shared with other processes, for which that flag
/// would count too.
///
/// Deadlines are necessary on both sides: an actor that blocks for ever in a pipe could
/// not be stopped.
#include "tensogram/byte_pipe.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <ctime>
#include <thread>

namespace weir::actors {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// A file descriptor, which is closed with this object if `own` is true.
class descriptor {
 public:
  descriptor(int number, bool own) : number_(number), own_(own) {}
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  ~descriptor() {
    if (own_) {
      ::close(number_);
    }
  }
  [[nodiscard]] int number() const noexcept { return number_; }
  /// Waits for an event of poll(2). Returns the events that have occurred, or 0 if the
  /// time has passed.
  /// @error{io}
  /// A signal counts as no event, so that the caller can look whether it should stop.
  [[nodiscard]] result<int> wait(short event, milliseconds timeout,
                                 const std::string& path) const {
    pollfd waited{number_, event, 0};
    const int ready = ::poll(&waited, 1, static_cast<int>(timeout.count()));
    if (ready < 0 && errno != EINTR) {
      return system_error("wait for", path, errno);
    }
    return ready > 0 ? int{waited.revents} : 0;
  }

 private:
  int number_;
  bool own_;
};

/// The reading end of a pipe.
class posix_pipe final : public byte_pipe {
 public:
  posix_pipe(int number, bool own, std::string path, milliseconds timeout)
      : descriptor_(number, own), path_(std::move(path)), timeout_(timeout) {}

  /// Reads what the pipe has, but waits no longer than the timeout. Returns no value
  /// after a timeout or a signal, and 0 at the end of the stream.
  result<std::optional<std::size_t>> read_some(mutable_bytes to) override {
    WEIR_TRY(const int events, descriptor_.wait(POLLIN, timeout_, path_));
    if (events == 0) {
      return std::optional<std::size_t>();
    }
    // A hang-up without data is the end of the stream. With POLLIN, the rest is read
    // first.
    if ((events & POLLIN) == 0 && (events & POLLHUP) != 0) {
      return std::optional<std::size_t>(0);
    }
    const ::ssize_t got = ::read(descriptor_.number(), to.data(), to.size());
    if (got < 0) {
      if (errno == EINTR || errno == EAGAIN) {
        return std::optional<std::size_t>();
      }
      return system_error("read", path_, errno);
    }
    return std::optional(static_cast<std::size_t>(got));
  }

 private:
  descriptor descriptor_;
  std::string path_;
  milliseconds timeout_;
};

/// Blocks SIGPIPE in this thread as long as it lives. Writing to a pipe without a reader
/// then returns an error, and does not end the process. A signal that is pending at the
/// end is removed, unless the thread had blocked SIGPIPE before.
/// Blocking in the thread is used because changing the handler would affect the whole
/// process.
class sigpipe_block {
 public:
  sigpipe_block() {
    ::sigemptyset(&broken_);
    ::sigaddset(&broken_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &broken_, &before_);
  }
  sigpipe_block(const sigpipe_block&) = delete;
  sigpipe_block& operator=(const sigpipe_block&) = delete;
  ~sigpipe_block() {
    const timespec at_once{};
    // With SIGPIPE blocked before, a pending signal is none of ours.
    if (::sigismember(&before_, SIGPIPE) == 0) {
      while (::sigtimedwait(&broken_, nullptr, &at_once) > 0) {
      }
      ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
  }

 private:
  sigset_t broken_{};
  sigset_t before_{};
};

/// The writing end of a pipe, as a file that only grows.
/// `written_` is its size; a write at any other offset is an error of the caller.
class pipe_file final : public file {
 public:
  pipe_file(int number, bool own, std::string path, milliseconds timeout)
      : descriptor_(number, own), own_(own), path_(std::move(path)), timeout_(timeout) {}

  result<std::size_t> read_some(std::uint64_t, mutable_bytes) override {
    return error(errc::unsupported,
                 "cannot read from pipe: expected one that was opened for reading, found "
                 "one for writing")
        .located(path_);
  }
  /// Writes as much as the pipe takes, and waits for its reader no longer than the
  /// timeout. A write without a reader is an error and no signal.
  result<std::size_t> write_some(std::uint64_t offset, bytes_view from) override {
    if (offset != written_) {
      return error(errc::unsupported,
                   fmt::format("cannot write to pipe: expected offset {}, because a pipe "
                               "only grows, found {}",
                               written_, offset))
          .located(path_);
    }
    const sigpipe_block guard;
    // A write to a blocking descriptor could block for ever if it were larger than the
    // free space of the pipe. When poll reports POLLOUT, PIPE_BUF bytes are free.
    const std::size_t max_bytes = own_ ? from.size() : std::size_t{PIPE_BUF};
    for (;;) {
      WEIR_TRY(const int events, descriptor_.wait(POLLOUT, timeout_, path_));
      if (events == 0) {
        return error(errc::timeout,
                     fmt::format("cannot write to pipe: expected its reader to read "
                                 "within {} ms, found the pipe full",
                                 timeout_.count()))
            .located(fmt::format("{}:{}", path_, written_));
      }
      // A partial write is normal; callers write the rest with another call.
      const ::ssize_t done =
          ::write(descriptor_.number(), from.data(), std::min(max_bytes, from.size()));
      if (done >= 0) {
        written_ += static_cast<std::uint64_t>(done);
        return static_cast<std::size_t>(done);
      }
      if (errno != EINTR && errno != EAGAIN) {
        return system_error("write to", path_, errno);
      }
    }
  }
  result<std::uint64_t> size() override { return written_; }
  result<void> resize(std::uint64_t) override {
    return error(errc::unsupported,
                 "cannot change the size of a pipe: expected a file, found a pipe")
        .located(path_);
  }
  // A pipe has nothing to make durable.
  result<void> sync() override { return {}; }
  [[nodiscard]] const std::string& path() const noexcept override { return path_; }

 private:
  descriptor descriptor_;
  bool own_;
  std::string path_;
  milliseconds timeout_;
  std::uint64_t written_ = 0;
};

}  // namespace

/// Opens a pipe, or the standard input for "-". Opening does not wait for a writer.
result<std::unique_ptr<byte_pipe>> open_pipe_to_read(const std::string& path,
                                                     milliseconds timeout) {
  const bool own = path != "-";
  const int number =
      own ? ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC) : STDIN_FILENO;
  if (number < 0) {
    return system_error("open", path, errno);
  }
  return std::unique_ptr<byte_pipe>(
      std::make_unique<posix_pipe>(number, own, own ? path : "stdin", timeout));
}

/// Opens a pipe, or the standard output for "-", and waits for a reader until the
/// timeout.
result<std::unique_ptr<file>> open_pipe_to_write(const std::string& path,
                                                 milliseconds timeout) {
  const bool own = path != "-";
  const auto until = steady_clock::now() + timeout;
  int number = STDOUT_FILENO;
  // Without a reader, open(2) fails with ENXIO. There is no event for a new reader, so
  // the loop tries again every millisecond.
  while (own && (number = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC)) < 0) {
    if (errno != ENXIO) {
      return system_error("open", path, errno);
    }
    if (steady_clock::now() >= until) {
      return error(errc::timeout, fmt::format("cannot open \"{}\": expected a reader "
                                              "within {} ms, found none",
                                              path, timeout.count()))
          .hint("start the program that reads from the pipe first");
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
  return std::unique_ptr<file>(
      std::make_unique<pipe_file>(number, own, own ? path : "stdout", timeout));
}

/// Sockets and character devices, such as terminals, are treated as pipes too: neither
/// has a size.
bool is_pipe(const std::string& path) {
  struct stat facts {};
  return path == "-" ||
         (::stat(path.c_str(), &facts) == 0 &&
          (S_ISFIFO(facts.st_mode) || S_ISSOCK(facts.st_mode) || S_ISCHR(facts.st_mode)));
}

}  // namespace weir::actors
