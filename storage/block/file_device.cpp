// SPDX-License-Identifier: Apache-2.0
/// @file
/// Files and block special files as block devices.
///
/// The size is determined once, when the file is opened, and every range is checked
/// against it. If the file becomes shorter later, a read meets its end and reports `torn`
/// instead of delivering fewer bytes.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "weir/storage/block_device.hpp"

namespace weir::storage {

namespace {

/// Largest number of buffers of one system call (IOV_MAX of Linux).
constexpr std::size_t max_pieces = 1024;

/// A file that is read and written with system calls. They are repeated after
/// interruptions and short transfers, so that callers see only whole ones.
///
/// Positional system calls are used throughout, so the descriptor has no shared position
/// and threads may read at the same time.
class file_device final : public block_device {
 public:
  file_device(int descriptor, std::string path, device_mode mode)
      : descriptor_(descriptor), path_(std::move(path)), mode_(mode) {}
  file_device(const file_device&) = delete;
  file_device& operator=(const file_device&) = delete;
  ~file_device() override { ::close(descriptor_); }

  /// Takes the exclusive lock, without waiting. Fails with `locked` if another process
  /// has the lock.
  result<void> lock();
  /// Determines the size. Refuses anything else than an ordinary file or a block special
  /// file.
  result<void> measure();
  /// Sets the size of a new file. The size is in bytes.
  result<void> resize(std::uint64_t size);

  result<void> read(std::uint64_t offset, mutable_bytes to) override;
  result<void> read_scattered(std::uint64_t offset,
                              std::span<const mutable_bytes> pieces) override;
  result<void> write(std::uint64_t offset, bytes_view from) override;
  result<void> sync() override;
  std::uint64_t size() const noexcept override { return size_; }
  result<extent> next_data(std::uint64_t offset, std::uint64_t end) override;
  // Returns the time of the last change of the content in nanoseconds since 1970, or 0
  // if it cannot be asked for.
  std::int64_t modified_ns() const noexcept override {
    struct stat info {};
    return ::fstat(descriptor_, &info) == 0
               ? std::int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec
               : 0;
  }
  const std::string& name() const noexcept override { return path_; }

 private:
  /// Adds file and offset to an error. The text is "PATH:OFFSET".
  error place(error e, std::uint64_t offset) const {
    return std::move(e).located(fmt::format("{}:{}", path_, offset));
  }
  /// Makes the error for a read beyond the end of the file.
  error beyond_end(std::uint64_t offset, std::uint64_t count) const {
    return place(
        error(errc::torn, fmt::format("cannot read {} bytes of \"{}\": expected them "
                                      "below {}, found the end of the file",
                                      count, path_, size_)),
        offset);
  }
  /// Reads into the pieces one after another, and advances `offset` by the bytes read.
  result<void> read_pieces(std::uint64_t& offset, std::span<iovec> pieces);

  int descriptor_;
  std::string path_;
  device_mode mode_;
  std::uint64_t size_ = 0;
};

// The lock is advisory: it keeps other writers of this library out, and disappears with
// the process. The lock belongs to the open file, so a second opening in the same
// process is refused as well.
result<void> file_device::lock() {
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      return error(
          errc::locked,
          fmt::format("cannot lock \"{}\": another process writes to it", path_));
    }
    return system_error("lock", path_, errno);
  }
  return {};
}

result<void> file_device::measure() {
  struct stat info {};
  if (::fstat(descriptor_, &info) != 0) {
    return system_error("stat", path_, errno);
  }
  if (!S_ISREG(info.st_mode) && !S_ISBLK(info.st_mode)) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot use \"{}\" as a volume: expected a file or a block device, "
                    "found something else",
                    path_));
  }
  // The position of the end is also the size of a block special file, whose st_size is 0.
  const off_t end = ::lseek(descriptor_, 0, SEEK_END);
  if (end < 0) {
    return system_error("measure", path_, errno);
  }
  size_ = static_cast<std::uint64_t>(end);
  return {};
}

// Growing a file by its end alone makes it sparse: it takes no space until it is written.
result<void> file_device::resize(std::uint64_t size) {
  if (size > static_cast<std::uint64_t>(INT64_MAX)) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot resize \"{}\": expected at most 2^63-1 bytes, found {}",
                    path_, size));
  }
  if (::ftruncate(descriptor_, static_cast<off_t>(size)) != 0) {
    return system_error("resize", path_, errno);
  }
  size_ = size;
  return {};
}

/// A plain read is a scattered read of one piece.
result<void> file_device::read(std::uint64_t offset, mutable_bytes to) {
  const mutable_bytes whole[] = {to};
  return read_scattered(offset, whole);
}

/// Pieces are passed to the system in groups of at most `max_pieces`. Each group is
/// checked against the size before it is read, so a failure may follow groups that were
/// read.
result<void> file_device::read_scattered(std::uint64_t offset,
                                         std::span<const mutable_bytes> pieces) {
  std::array<iovec, max_pieces> vectors;
  // The array is filled anew for each group, because `read_pieces` changes it.
  while (!pieces.empty()) {
    const std::size_t count = std::min(pieces.size(), max_pieces);
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < count; ++i) {
      vectors[i] = {pieces[i].data(), pieces[i].size()};
      bytes += pieces[i].size();
    }
    if (offset > size_ || bytes > size_ - offset) {
      return beyond_end(offset, bytes);
    }
    WEIR_CHECK(read_pieces(offset, std::span(vectors).first(count)));
    pieces = pieces.subspan(count);
  }
  return {};
}

// A transfer may be short and end inside a piece: consumed pieces are dropped, and the
// first of the rest is shortened.
result<void> file_device::read_pieces(std::uint64_t& offset, std::span<iovec> pieces) {
  while (!pieces.empty()) {
    if (pieces.front().iov_len == 0) {
      pieces = pieces.subspan(1);
      continue;
    }
    // `pieces` never begins with an empty buffer here, so a result of 0 can only mean
    // the end of the file.
    const ssize_t n =
        ::preadv(descriptor_, pieces.data(), static_cast<int>(pieces.size()),
                 static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return place(system_error("read", path_, errno), offset);
    }
    if (n == 0) {
      return beyond_end(offset, pieces.front().iov_len);
    }
    offset += static_cast<std::uint64_t>(n);
    // Drops the buffers that are full. The last one may be full in part.
    for (auto left = static_cast<std::size_t>(n); left > 0;) {
      const std::size_t step = std::min(left, pieces.front().iov_len);
      pieces.front().iov_base = static_cast<char*>(pieces.front().iov_base) + step;
      pieces.front().iov_len -= step;
      left -= step;
      if (pieces.front().iov_len == 0) {
        pieces = pieces.subspan(1);
      }
    }
  }
  return {};
}

// The checks come first, so a write that cannot be complete writes nothing.
result<void> file_device::write(std::uint64_t offset, bytes_view from) {
  if (mode_ != device_mode::writable) {
    return place(
        error(errc::invalid_argument,
              fmt::format("cannot write to \"{}\": it was opened for reading", path_)),
        offset);
  }
  if (offset > size_ || from.size() > size_ - offset) {
    return place(
        error(errc::out_of_range,
              fmt::format("cannot write {} bytes to \"{}\": expected a range below {}",
                          from.size(), path_, size_)),
        offset);
  }
  // A write may be short, for example on a full disk; then the next attempt reports the
  // reason.
  while (!from.empty()) {
    const ssize_t n =
        ::pwrite(descriptor_, from.data(), from.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      return place(system_error("write", path_, n < 0 ? errno : EIO), offset);
    }
    from = from.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return {};
}

/// After success the data survive a loss of power, as far as the medium keeps its
/// promise.
result<void> file_device::sync() {
  if (::fsync(descriptor_) != 0) {
    return system_error("sync", path_, errno);
  }
  return {};
}

// The device has been measured, so a range that begins behind its end is a hole.
result<extent> file_device::next_data(std::uint64_t offset, std::uint64_t end) {
  end = std::min(end, size_);
  if (offset >= end) {
    // Nothing is left below `end`.
    return extent{end, 0};
  }
  const off_t data = ::lseek(descriptor_, static_cast<off_t>(offset), SEEK_DATA);
  if (data < 0) {
    // ENXIO: the rest is a hole. Any other error: the file system does not know its
    // holes, so all of the rest may be data.
    return errno == ENXIO ? extent{end, 0} : extent{offset, end - offset};
  }
  // The next data begin behind the range that was asked for.
  if (static_cast<std::uint64_t>(data) >= end) {
    return extent{end, 0};
  }
  // If the file system cannot tell where the next hole begins, all of the rest counts as
  // data.
  const off_t hole = ::lseek(descriptor_, data, SEEK_HOLE);
  const std::uint64_t stop =
      hole < 0 ? end : std::min(end, static_cast<std::uint64_t>(hole));
  return extent{static_cast<std::uint64_t>(data),
                stop - static_cast<std::uint64_t>(data)};
}

/// Opens a file, locks it for writing if required, and measures it. The device owns the
/// descriptor from then on, so every failure below closes it.
result<std::unique_ptr<file_device>> open_descriptor(const std::string& path, int flags,
                                                     device_mode mode) {
  int descriptor = -1;
  do {
    descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0) {
    return system_error("open", path, errno);
  }
  auto device = std::make_unique<file_device>(descriptor, path, mode);
  // The lock comes before the measurement: another writer could otherwise change the
  // size in between.
  if (mode == device_mode::writable) {
    WEIR_CHECK(device->lock());
  }
  WEIR_CHECK(device->measure());
  return device;
}

}  // namespace

result<std::unique_ptr<block_device>> open_file_device(const std::string& path,
                                                       device_mode mode) {
  WEIR_TRY(
      auto device,
      open_descriptor(path, mode == device_mode::writable ? O_RDWR : O_RDONLY, mode));
  return std::unique_ptr<block_device>(std::move(device));
}

/// The file must not exist yet (O_EXCL); a file that cannot be resized is left with its
/// size of 0.
result<std::unique_ptr<block_device>> create_file_device(const std::string& path,
                                                         std::uint64_t size) {
  WEIR_TRY(auto device,
           open_descriptor(path, O_RDWR | O_CREAT | O_EXCL, device_mode::writable));
  WEIR_CHECK(device->resize(size));
  return std::unique_ptr<block_device>(std::move(device));
}

}  // namespace weir::storage
