// SPDX-License-Identifier: Apache-2.0
/// @file
/// The file system behind a small interface, and functions that read and write whole
/// files through it.
///
/// Everything that must survive a crash is written through `file_system`, so that tests
/// can put another implementation in its place, stop it after any operation and inject
/// failures. Errors of system calls have the code of `errc_of_errno` and name the path.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"

namespace weir {

/// An open file, closed by its destructor. Reads and writes take an offset; there is no
/// current position.
/// @units{offsets and sizes, bytes}
/// @threads{thread-compatible; concurrent reads are safe}
class file {
 public:
  virtual ~file() = default;
  /// Reads up to `buffer.size()` bytes; `read_exactly` reads them all.
  /// @returns The number of bytes read, possibly fewer than asked for; 0 at the end of
  /// the file.
  /// @error{io, the system cannot read}
  [[nodiscard]] virtual result<std::size_t> read_some(std::uint64_t offset,
                                                      mutable_bytes buffer) = 0;
  /// Writes up to `bytes.size()` bytes; `write_all` writes them all.
  /// @returns The number of bytes written, possibly fewer than given.
  /// @error{io, the system cannot write} @error{no_space, the device or quota is full}
  [[nodiscard]] virtual result<std::size_t> write_some(std::uint64_t offset,
                                                       bytes_view bytes) = 0;
  /// Returns the size of the file.
  /// @error{io, the system cannot tell}
  [[nodiscard]] virtual result<std::uint64_t> size() = 0;
  /// Cuts the file off at a size, or extends it to the size with zeros.
  /// @error{io, the system cannot resize} @error{no_space, the device or quota is full}
  [[nodiscard]] virtual result<void> resize(std::uint64_t bytes) = 0;
  /// Makes the content durable. Do not retry after a failure: the kernel may have dropped
  /// the pages, so the content is unknown. Write a new file instead.
  /// @error{io, the device failed} @error{no_space, the device or quota is full}
  [[nodiscard]] virtual result<void> sync() = 0;
  /// Returns the path with which the file was opened.
  [[nodiscard]] virtual const std::string& path() const noexcept = 0;
};

/// How a file is opened.
enum class open_mode : std::uint8_t {
  read,            ///< an existing file, for reading
  read_write,      ///< an existing file, for both
  create_new,      ///< a new file; fails if the path exists
  create_or_open,  ///< an existing file with its content, or a new one
};

/// The operations on paths that storage needs. Paths are UTF-8 text.
/// @threads{safe to call concurrently}
class file_system {
 public:
  virtual ~file_system() = default;
  /// Opens a file.
  /// @error{not_found, the path does not exist}
  /// @error{already_exists, the path exists and the mode is create_new}
  /// @error{no_space, there is no space for a new file}
  /// @error{io, any other failure, such as missing permission}
  [[nodiscard]] virtual result<std::unique_ptr<file>> open(const std::string& path,
                                                           open_mode mode) = 0;
  /// Renames a file. A file that has the new path is replaced in the same step.
  /// @error{not_found, `old_path` does not exist}
  /// @error{io, any other failure, such as a rename to another file system}
  [[nodiscard]] virtual result<void> rename(const std::string& old_path,
                                            const std::string& new_path) = 0;
  /// Removes a file.
  /// @error{not_found, the path does not exist} @error{io, any other failure}
  [[nodiscard]] virtual result<void> remove(const std::string& path) = 0;
  /// Returns the names in a folder, sorted by their bytes, without "." and "..".
  /// @error{not_found, the folder does not exist} @error{io, any other failure}
  [[nodiscard]] virtual result<std::vector<std::string>> list(
      const std::string& folder) = 0;
  /// Makes a folder in an existing folder; succeeds if the folder exists already.
  /// @error{not_found, the parent does not exist}
  /// @error{already_exists, the path is not a folder} @error{io, any other failure}
  [[nodiscard]] virtual result<void> make_folder(const std::string& path) = 0;
  /// Makes the entries of a folder durable: names that were created, renamed or removed.
  /// @error{not_found, the folder does not exist} @error{io, any other failure}
  [[nodiscard]] virtual result<void> sync_folder(const std::string& path) = 0;
  /// Returns whether the path names a file or folder that this process can reach.
  [[nodiscard]] virtual bool exists(const std::string& path) = 0;
};

/// Returns the file system of the operating system.
[[nodiscard]] file_system& posix_file_system();

/// An exclusive advisory lock on a file, held until destruction. Only processes that ask
/// for the lock respect it.
/// @threads{thread-compatible}
class file_lock {
 public:
  /// Creates the file if necessary and locks it; waits up to a second for the holder,
  /// because a process that was killed may not have released its lock yet.
  /// @error{locked, another process or object holds the lock}
  /// @error{not_found, the folder does not exist} @error{io, the file cannot be opened}
  [[nodiscard]] static result<file_lock> acquire(const std::string& path);
  /// Takes over the lock of `other`, which then holds none.
  file_lock(file_lock&& other) noexcept;
  /// Exchanges the locks of both objects.
  file_lock& operator=(file_lock&& other) noexcept;
  ~file_lock();

 private:
  explicit file_lock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

/// Reads exactly `buffer.size()` bytes.
/// @error{torn, the file ends before} @error{io, as of `file::read_some`}
[[nodiscard]] result<void> read_exactly(file& f, std::uint64_t offset,
                                        mutable_bytes buffer);

/// Writes all bytes.
/// @error{io, as of `file::write_some`, or the file takes no more bytes}
/// @error{no_space, the device or quota is full}
[[nodiscard]] result<void> write_all(file& f, std::uint64_t offset, bytes_view bytes);

/// Returns the content of a file.
/// @error{not_found, the path does not exist}
/// @error{torn, the file became shorter meanwhile} @error{io, the file cannot be read}
[[nodiscard]] result<byte_vector> read_file(file_system& fs, const std::string& path);

/// Writes a whole file so that a crash leaves either the old file or the new one.
///
/// The content goes to a temporary file in the same folder, which is synced, renamed to
/// `path`, and made durable by a sync of the folder. The temporary name is `path` with
/// the process id, a number and ".tmp". On failure the temporary file is removed and
/// `path` is unchanged. If several writers write one path, the file of the last one
/// remains, whole.
/// @param write  Fills the temporary file; its error is passed on.
/// @error{io, an operation failed} @error{no_space, the device or quota is full}
/// @threads{safe to call concurrently}
[[nodiscard]] result<void> write_file_atomically(
    file_system& fs, const std::string& path,
    const std::function<result<void>(file&)>& write);
/// Writes a file of the given content; see the overload with a function.
/// @error{io, an operation failed} @error{no_space, the device or quota is full}
/// @threads{safe to call concurrently}
[[nodiscard]] result<void> write_file_atomically(file_system& fs, const std::string& path,
                                                 bytes_view content);

/// Removes the temporary files that killed calls of `write_file_atomically` left behind.
/// @param path  The beginning of the paths that were written: "a/" stands for all files
/// of the folder a, "a/b" for "a/b" and "a/bc".
/// @pre No other process or thread writes these files now.
/// @error{not_found, the folder does not exist} @error{io, a file cannot be removed}
[[nodiscard]] result<void> remove_unfinished(file_system& fs, const std::string& path);

/// Returns the path of a name in a folder: "a/b" from "a" and "b", or from "a/" and "b".
[[nodiscard]] std::string join_path(const std::string& folder, const std::string& name);

/// Returns the folder part of a path: "a" of "a/b", "/" of "/a", "." if there is none.
[[nodiscard]] std::string folder_of(const std::string& path);

}  // namespace weir
