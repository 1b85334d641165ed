// SPDX-License-Identifier: Apache-2.0
/// @file
/// The file system of POSIX. A call that a signal interrupts is repeated.
///
/// Reads and writes may move fewer bytes than asked for, as POSIX allows; `read_exactly`
/// and `write_all` at the end of this file repeat them. Paths appear in every error.
#include "weir/base/file.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "weir/base/clock.hpp"

namespace weir {

namespace {

/// An open file of the system. The descriptor is closed at the end; an error of closing
/// is not reported, because `sync` has reported what matters.
class posix_file final : public file {
 public:
  posix_file(int descriptor, std::string path)
      : descriptor_(descriptor), path_(std::move(path)) {}
  posix_file(const posix_file&) = delete;
  posix_file& operator=(const posix_file&) = delete;
  ~posix_file() override { ::close(descriptor_); }

  // The position in the file is not used, so several threads may read at once.
  result<std::size_t> read_some(std::uint64_t offset, mutable_bytes buffer) override {
    return repeat("read", [&] {
      return ::pread(descriptor_, buffer.data(), buffer.size(),
                     static_cast<off_t>(offset));
    });
  }
  result<std::size_t> write_some(std::uint64_t offset, bytes_view bytes) override {
    return repeat("write", [&] {
      return ::pwrite(descriptor_, bytes.data(), bytes.size(),
                      static_cast<off_t>(offset));
    });
  }
  result<std::uint64_t> size() override {
    // The size is that at the moment of the call.
    struct stat info {};
    if (::fstat(descriptor_, &info) != 0) {
      return system_error("stat", path_, errno);
    }
    return static_cast<std::uint64_t>(info.st_size);
  }
  // New bytes are zeros.
  result<void> resize(std::uint64_t bytes) override {
    if (::ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) {
      return system_error("resize", path_, errno);
    }
    return {};
  }
  // fsync() and not fdatasync(): the size of the file must be durable too.
  result<void> sync() override {
    if (::fsync(descriptor_) != 0) {
      return system_error("sync", path_, errno);
    }
    return {};
  }
  const std::string& path() const noexcept override { return path_; }

 private:
  // Repeats a call while signals interrupt it.
  template <class Call>
  result<std::size_t> repeat(const char* action, Call call) {
    for (;;) {
      // A negative number is the only sign of a failure; zero is the end of the file.
      const ssize_t n = call();
      if (n >= 0) {
        return static_cast<std::size_t>(n);
      }
      if (errno != EINTR) {
        return system_error(action, path_, errno);
      }
    }
  }

  int descriptor_;  ///< never -1
  std::string path_;
};

/// Operations on paths. The object has no state.
class posix_files final : public file_system {
 public:
  result<std::unique_ptr<file>> open(const std::string& path, open_mode mode) override {
    // Programs that are started later must not inherit the file.
    int flags = O_CLOEXEC;
    switch (mode) {
      case open_mode::read: flags |= O_RDONLY; break;
      case open_mode::read_write: flags |= O_RDWR; break;
      case open_mode::create_new: flags |= O_RDWR | O_CREAT | O_EXCL; break;
      case open_mode::create_or_open: flags |= O_RDWR | O_CREAT; break;
    }
    int descriptor = -1;
    do {
      // The rights apply to a file that is created, and are reduced by those that the
      // process masks.
      descriptor = ::open(path.c_str(), flags, 0644);
    } while (descriptor < 0 && errno == EINTR);
    if (descriptor < 0) {
      return system_error("open", path, errno);
    }
    return std::unique_ptr<file>(std::make_unique<posix_file>(descriptor, path));
  }

  // Replaces the target in one step. Nobody ever sees it half written.
  result<void> rename(const std::string& old_path, const std::string& new_path) override {
    if (::rename(old_path.c_str(), new_path.c_str()) != 0) {
      return system_error("rename", old_path, errno);
    }
    return {};
  }

  // Removes a file, not a folder.
  result<void> remove(const std::string& path) override {
    if (::unlink(path.c_str()) != 0) {
      return system_error("remove", path, errno);
    }
    return {};
  }

  result<std::vector<std::string>> list(const std::string& folder) override {
    DIR* stream = ::opendir(folder.c_str());
    if (stream == nullptr) {
      return system_error("list", folder, errno);
    }
    std::vector<std::string> names;
    errno = 0;  // readdir returns null at the end and on failure; only errno tells which
    while (const dirent* entry = ::readdir(stream)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") {
        names.push_back(name);
      }
    }
    // closedir() may change it.
    const int number = errno;
    ::closedir(stream);
    if (number != 0) {
      return system_error("list", folder, number);
    }
    // The order of the system is arbitrary and would differ between machines.
    std::sort(names.begin(), names.end());
    return names;
  }

  // Creates one folder, not those above it.
  result<void> make_folder(const std::string& path) override {
    struct stat info {};
    // The folder may exist, also through a symbolic link.
    if (::mkdir(path.c_str(), 0755) != 0) {
      const int number = errno;
      const bool is_folder = ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
      if (number != EEXIST || !is_folder) {
        return system_error("create folder", path, number);
      }
    }
    return {};
  }

  // Makes the names in a folder durable: new files, and files that were renamed.
  result<void> sync_folder(const std::string& path) override {
    // A folder is opened only to be synced.
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) {
      return system_error("open folder", path, errno);
    }
    const int status = ::fsync(descriptor);
    // Closing may change the number of the error.
    const int number = errno;
    ::close(descriptor);
    if (status != 0) {
      return system_error("sync folder", path, number);
    }
    return {};
  }

  // True for everything with this name, also for folders and devices.
  bool exists(const std::string& path) override {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0;
  }
};

}  // namespace

file_system& posix_file_system() {
  // Threads may use files while the process ends, so this is never destroyed.
  static auto* const files = new posix_files();  // NOLINT: it has no state
  return *files;
}

/// flock() belongs to the open file, so the kernel releases it when the process ends,
/// however it ends.
result<file_lock> file_lock::acquire(const std::string& path) {
  // The file stays when the lock is given back. Removing it could let two processes lock
  // different files of one name.
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    return system_error("open", path, errno);
  }
  // The kernel may still be ending a process that was killed a moment ago and holds the
  // lock, so the first refusals are not final.
  for (std::int64_t start = now_ns(); ::flock(descriptor, LOCK_EX | LOCK_NB) != 0;) {
    // Closing below would change the number.
    const int number = errno;
    if (number == EWOULDBLOCK && seconds_since(start) < 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      continue;
    }
    ::close(descriptor);
    if (number == EWOULDBLOCK) {
      return error(errc::locked,
                   fmt::format("cannot lock \"{}\": another process writes here", path))
          .hint("stop that process, or choose another folder");
    }
    return system_error("lock", path, number);
  }
  return file_lock(descriptor);
}

/// The descriptor -1 stands for no lock.
file_lock::file_lock(file_lock&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

/// The other object gets the lock that this one had, and gives it back at its end.
file_lock& file_lock::operator=(file_lock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

file_lock::~file_lock() {
  // Closing the descriptor gives the lock back.
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

/// The loop ends at the end of the file or when all bytes are there.
result<void> read_exactly(file& f, std::uint64_t offset, mutable_bytes buffer) {
  std::size_t done = 0;
  while (done < buffer.size()) {
    WEIR_TRY(const std::size_t n, f.read_some(offset + done, buffer.subspan(done)));
    if (n == 0) {
      return error(errc::torn,
                   fmt::format("cannot read {} bytes: the file ends after {} of them",
                               buffer.size(), done))
          // The place is that of the first byte that was asked for.
          .located(fmt::format("{}:{}", f.path(), offset));
    }
    done += n;
  }
  return {};
}

result<void> write_all(file& f, std::uint64_t offset, bytes_view bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    WEIR_TRY(const std::size_t n, f.write_some(offset + done, bytes.subspan(done)));
    // A write of nothing would repeat forever.
    if (n == 0) {
      return error(errc::io,
                   fmt::format("cannot write {} bytes: the file took {} of them",
                               bytes.size(), done))
          .located(fmt::format("{}:{}", f.path(), offset));
    }
    done += n;
  }
  return {};
}

result<byte_vector> read_file(file_system& fs, const std::string& path) {
  WEIR_TRY(const auto f, fs.open(path, open_mode::read));
  // The size is asked first; a file that grows meanwhile is read up to it.
  WEIR_TRY(const std::uint64_t size, f->size());
  byte_vector content(size);
  WEIR_CHECK(read_exactly(*f, 0, content));
  return content;
}

std::string join_path(const std::string& folder, const std::string& name) {
  // The caller gives the parts; a name that begins with a slash is not treated specially.
  return folder.empty() || folder.back() == '/' ? folder + name : folder + "/" + name;
}

std::string folder_of(const std::string& path) {
  // A path without a slash is a name in the working folder.
  const auto slash = path.find_last_of('/');
  if (slash == std::string::npos) {
    return ".";
  }
  // The only folder whose path ends in a slash is the root.
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace weir
