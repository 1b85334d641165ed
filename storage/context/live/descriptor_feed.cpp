// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads descriptors that cannot seek: standard input and named pipes.
///
/// Several feeds share the functions of this file.
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "context/live/byte_feed.hpp"

namespace weir::storage {

/// A descriptor below 0 stands for none.
owned_descriptor::~owned_descriptor() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

namespace {

/// `number` is an errno.
error cannot_read(const std::string& name, int number) {
  return error(errc::source_unavailable,
               fmt::format("cannot read {}: {}", name, std::strerror(number)));
}

/// With `own`, the descriptor is closed with the object.
class descriptor_feed final : public byte_feed {
 public:
  descriptor_feed(int fd, bool own, std::string name)
      : fd_(fd), owned_(own ? fd : -1), name_(std::move(name)) {}
  result<feed_piece> receive(std::uint64_t, mutable_bytes to, int wait_ms) override {
    WEIR_TRY(const bool there, wait_readable(fd_, wait_ms, name_));
    return there ? read_piece(fd_, to, name_) : result<feed_piece>(feed_piece{});
  }

 private:
  int fd_;
  owned_descriptor owned_;
  std::string name_;
};

}  // namespace

// A regular file is always readable, and a hang-up is found by the read.
//
// Returns whether something can be read within `wait_ms`; an interruption counts as
// nothing.
result<bool> wait_readable(int fd, int wait_ms, const std::string& name) {
  pollfd one{fd, POLLIN, 0};
  const int found = ::poll(&one, 1, wait_ms);
  if (found < 0 && errno != EINTR) {
    return cannot_read(name, errno);
  }
  return found > 0;
}

/// An end is a result of its own, no error.
result<feed_piece> read_piece(int fd, mutable_bytes to, const std::string& name) {
  const ssize_t got = ::read(fd, to.data(), to.size());
  if (got < 0) {
    if (errno == EINTR || errno == EAGAIN) {
      return feed_piece{};
    }
    return cannot_read(name, errno);
  }
  if (got == 0) {
    return feed_piece{feed_piece::kind::end, 0};
  }
  return feed_piece{feed_piece::kind::bytes, static_cast<std::size_t>(got)};
}

/// Standard input is not owned, a named pipe is.
std::unique_ptr<byte_feed> make_descriptor_feed(int fd, bool own, std::string name) {
  return std::make_unique<descriptor_feed>(fd, own, std::move(name));
}

// A reader that is a writer as well never sees the end, so that one writer of turns can
// follow another.
//
// Opening without waiting succeeds before a writer is there.
result<std::unique_ptr<token_source>> open_fifo_source(const std::string& path,
                                                       const live_options& options) {
  const int how = options.turns ? O_RDWR : O_RDONLY;
  const int fd = ::open(path.c_str(), how | O_NONBLOCK | O_CLOEXEC);
  owned_descriptor owned(fd);
  struct stat about {};
  if (fd < 0 || ::fstat(fd, &about) != 0) {
    return error(errc::source_unavailable, fmt::format("cannot open pipe \"{}\"", path))
        .because(system_error("open", path, errno));
  }
  // Any other file has a size and is read by another source.
  if (!S_ISFIFO(about.st_mode)) {
    return error(
        errc::source_unavailable,
        fmt::format("cannot open pipe \"{}\": expected a named pipe, found another file",
                    path));
  }
  WEIR_TRY(auto feed,
           make_logged_feed(make_descriptor_feed(owned.release(), true, path), options));
  return make_live_source(make_byte_input(std::move(feed), options.turns), path, path,
                          options.turns);
}

}  // namespace weir::storage
