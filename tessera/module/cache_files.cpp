// SPDX-License-Identifier: Apache-2.0
/// @file
/// Files of the cache, by POSIX calls: the file system of base/file knows neither owners
/// nor modes.
///
/// Code is loaded from these files, so nobody else may be able to change them: the folder
/// and the files must belong to this user (the folder perhaps to root) and not be
/// writable for others, and links are not followed. A new file is written under a
/// temporary name, locked meanwhile, synced and renamed, so a reader sees either nothing
/// or a complete entry.
#include "cache_files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "weir/base/file.hpp"

/// Every step that examines a file uses its descriptor, never its name, because the name
/// could mean another file a moment later.
namespace weir::tessera {

namespace {

/// End of the names of files that are being written.
constexpr std::string_view temporary_suffix = ".tmp";
constexpr mode_t writable_by_others = S_IWGRP | S_IWOTH;

/// Returns the error of a folder that must not be used.
error refused_folder(const std::string& path, std::string_view expected,
                     std::string found) {
  return error(errc::invalid_argument,
               fmt::format("cannot use cache folder {}: expected {}, found {}", path,
                           expected, found));
}

/// Writes all bytes, since a call may write fewer or be interrupted.
result<void> write_fully(int descriptor, const std::string& path, bytes_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return system_error("write", path, errno);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

/// Locks a new file and returns true if it still has its name. Another process that opens
/// the cache takes a file without a lock for an abandoned one: it may have locked the
/// file first, and removes it before it lets go of the lock.
bool lock_with_name(const private_file& file) {
  while (::flock(file.get(), LOCK_EX) != 0 && errno == EINTR) {
  }
  struct stat facts {};
  // A file without a name was removed meanwhile.
  return ::fstat(file.get(), &facts) == 0 && facts.st_nlink != 0;
}

// Creates a temporary file and locks it. The name is unique among the threads of all
// living processes of this machine. If an ended process with the same number has left
// such a file, or another process has removed the new file before it was locked, the next
// serial number is tried.
// O_EXCL makes sure that the file is new, and O_NOFOLLOW that it is no link.
result<private_file> create_temporary(const std::string& folder, std::string& path) {
  static std::atomic<std::uint64_t> serial{0};
  for (int attempt = 0; attempt < 1000; ++attempt) {
    path = join_path(folder, fmt::format(".{}-{}{}", ::getpid(), serial.fetch_add(1),
                                         temporary_suffix));
    // O_EXCL: the file must not exist.
    private_file file(
        ::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (file.is_open() && lock_with_name(file)) {
      return file;
    }
    // Any other failure would come again.
    if (!file.is_open() && errno != EEXIST) {
      break;
    }
  }
  return system_error("create", path, errno);
}

/// Makes a folder and those above it. Only the failure of the last one counts: folders
/// above may exist although this process could not make them.
result<void> make_folders(const std::string& path) {
  // Each prefix that ends before a slash, and the whole path at last.
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST && end == std::string::npos) {
      return refused_folder(path, "one that can be made",
                            fmt::format("\"{}\"", std::strerror(errno)));
    }
    if (end == std::string::npos) {
      return {};
    }
  }
}

}  // namespace

private_file& private_file::operator=(private_file&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

private_file::~private_file() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

int private_file::release() noexcept {
  return std::exchange(descriptor_, -1);
}

// A folder that others can write to is accepted if it has the sticky bit, as /tmp has:
// nobody can then replace files of this user.
result<void> prepare_private_folder(const std::string& path) {
  if (path.empty()) {
    return refused_folder("\"\"", "a name", "none");
  }
  WEIR_CHECK(make_folders(path));
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) {
    return refused_folder(path, "a folder", fmt::format("\"{}\"", std::strerror(errno)));
  }
  if (!S_ISDIR(facts.st_mode)) {
    return refused_folder(path, "a folder", "something else");
  }
  // Root may provide a folder for all users.
  if (facts.st_uid != ::geteuid() && facts.st_uid != 0) {
    return refused_folder(path, "one of this user or of root",
                          fmt::format("one of user {}", facts.st_uid));
  }
  if ((facts.st_mode & writable_by_others) != 0 && (facts.st_mode & S_ISVTX) == 0) {
    return refused_folder(path, "one that others cannot write to",
                          fmt::format("mode {:o}", facts.st_mode & 07777));
  }
  return {};
}

// O_NONBLOCK keeps a named pipe in place of the file from blocking the call.
result<private_file> open_private(const std::string& path) {
  private_file file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.is_open()) {
    if (errno == ENOENT) {
      // A missing file is no error: the result is not open.
      return file;
    }
    return errno == ELOOP ? error(errc::corrupt,
                                  fmt::format("cannot open {}: expected a file, found a "
                                              "link",
                                              path))
                          : system_error("open", path, errno);
  }
  // The facts are those of the open file, so nobody can exchange it after the check.
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0) {
    return system_error("look at", path, errno);
  }
  // The file must belong to this user and be writable for nobody else.
  if (!S_ISREG(facts.st_mode) || facts.st_uid != ::geteuid() ||
      (facts.st_mode & writable_by_others) != 0) {
    return error(errc::corrupt,
                 fmt::format("cannot open {}: expected a file of this user alone, found "
                             "mode {:o} of user {}",
                             path, facts.st_mode, facts.st_uid));
  }
  return file;
}

// Reads at most the size that the file had at first. A file that has become shorter gives
// fewer bytes, which the check of its trailer finds.
result<byte_vector> read_private(const private_file& file, std::uint64_t max_bytes) {
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0) {
    return system_error("look at", "an entry of the cache", errno);
  }
  if (facts.st_size < 0 || static_cast<std::uint64_t>(facts.st_size) > max_bytes) {
    return error(errc::out_of_range,
                 fmt::format("cannot read an entry of the cache: expected at most {} "
                             "bytes, found {}",
                             max_bytes, facts.st_size));
  }
  byte_vector out(static_cast<std::size_t>(facts.st_size));
  std::size_t got = 0;
  // `pread` leaves the position of the descriptor alone, which may be handed on.
  while (got < out.size()) {
    const ssize_t n =
        ::pread(file.get(), out.data() + got, out.size() - got, static_cast<off_t>(got));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return system_error("read", "an entry of the cache", errno);
    }
    if (n == 0) {
      // The file ends here.
      break;
    }
    got += static_cast<std::size_t>(n);
  }
  out.resize(got);
  return out;
}

// After the rename, the folder is synced too, so that the entry survives a crash.
result<void> write_private(const std::string& folder, const std::string& name,
                           bytes_view head, bytes_view tail) {
  std::string temporary;
  WEIR_TRY(const private_file file, create_temporary(folder, temporary));
  const std::string path = join_path(folder, name);
  const auto fill = [&]() -> result<void> {
    WEIR_CHECK(write_fully(file.get(), temporary, head));
    WEIR_CHECK(write_fully(file.get(), temporary, tail));
    if (::fsync(file.get()) != 0) {
      return system_error("sync", temporary, errno);
    }
    // The rename replaces an older entry at once.
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
      return system_error("rename", temporary, errno);
    }
    return {};
  };
  // The temporary file is removed after any failure.
  if (auto filled = fill(); !filled) {
    ::unlink(temporary.c_str());
    return filled;
  }
  return posix_file_system().sync_folder(folder);
}

// A file that is locked has a living writer and stays.
void remove_abandoned(const std::string& folder) {
  for (const std::string& name : names_in(folder, temporary_suffix)) {
    const std::string path = join_path(folder, name);
    const auto file = open_private(path);
    // The lock also keeps a writer from going on, see `lock_with_name`.
    if (file && file->is_open() && ::flock(file->get(), LOCK_EX | LOCK_NB) == 0) {
      ::unlink(path.c_str());
    }
  }
}

// A folder that cannot be read has no entries: the cache is then empty.
std::vector<std::string> names_in(const std::string& folder, std::string_view suffix) {
  std::vector<std::string> out;
  const auto all = posix_file_system().list(folder);
  if (all) {
    std::copy_if(all->begin(), all->end(), std::back_inserter(out),
                 [&](const std::string& name) {
                   return std::string_view(name).ends_with(suffix);
                 });
  }
  return out;
}

}  // namespace weir::tessera
