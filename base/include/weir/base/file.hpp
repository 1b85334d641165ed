// SPDX-License-Identifier: Apache-2.0
/// @file
/// The file system behind one small interface, so that tests can enumerate crash states
/// and inject faults.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"

namespace weir {

/// An open file. Reads and writes at offsets; a file position does not exist.
/// @threads{thread-compatible; concurrent reads are safe}
class file {
 public:
  virtual ~file() = default;
  /// Reads up to `to.size()` bytes; 0 at the end of the file. May read fewer than asked
  /// for.
  [[nodiscard]] virtual result<std::size_t> read_some(std::uint64_t offset,
                                                      mutable_bytes to) = 0;
  /// Writes up to `from.size()` bytes and returns how many; may write fewer.
  [[nodiscard]] virtual result<std::size_t> write_some(std::uint64_t offset,
                                                       bytes_view from) = 0;
  [[nodiscard]] virtual result<std::uint64_t> size() = 0;
  [[nodiscard]] virtual result<void> resize(std::uint64_t bytes) = 0;
  /// Makes the content durable. After a failure the content is unknown: never retry,
  /// write a new file.
  [[nodiscard]] virtual result<void> sync() = 0;
  [[nodiscard]] virtual const std::string& path() const noexcept = 0;
};

enum class open_mode : std::uint8_t { read, read_write, create_new, create_or_open };

/// What storage needs of a file system. Paths are UTF-8 text.
/// @threads{safe to call concurrently}
class file_system {
 public:
  virtual ~file_system() = default;
  [[nodiscard]] virtual result<std::unique_ptr<file>> open(const std::string& path,
                                                           open_mode mode) = 0;
  /// Replaces `to` if it exists. @error{io, also across file systems (EXDEV)}
  [[nodiscard]] virtual result<void> rename(const std::string& from,
                                            const std::string& to) = 0;
  [[nodiscard]] virtual result<void> remove(const std::string& path) = 0;
  /// Names in a folder, sorted bytewise, without "." and "..".
  [[nodiscard]] virtual result<std::vector<std::string>> list(
      const std::string& folder) = 0;
  [[nodiscard]] virtual result<void> make_folder(const std::string& path) = 0;
  /// Makes the entries of a folder durable.
  [[nodiscard]] virtual result<void> sync_folder(const std::string& path) = 0;
  [[nodiscard]] virtual bool exists(const std::string& path) = 0;
};

/// The real one.
[[nodiscard]] file_system& posix_file_system();

/// Exclusive advisory lock on a file, which it creates; held until destruction.
/// @threads{thread-compatible}
class file_lock {
 public:
  /// @error{locked, another process or object holds it, and still does after a second}
  [[nodiscard]] static result<file_lock> acquire(const std::string& path);
  file_lock(file_lock&& other) noexcept;
  file_lock& operator=(file_lock&& other) noexcept;
  ~file_lock();

 private:
  explicit file_lock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

/// Reads exactly `to.size()` bytes. @error{torn, the file ends before}
[[nodiscard]] result<void> read_exactly(file& f, std::uint64_t offset, mutable_bytes to);
[[nodiscard]] result<void> write_all(file& f, std::uint64_t offset, bytes_view from);
[[nodiscard]] result<byte_vector> read_file(file_system& fs, const std::string& path);

/// Writes a whole file so that at any instant either the old or the new one is there, and
/// the new one once this returns: temporary file in the same folder (`path` with process
/// and call, ".tmp"), write, sync, rename, sync of the folder. `write` fills the
/// temporary file; on failure the temporary file is removed and `path` is untouched. Of
/// several writers of one path the last wins whole. @threads{safe to call concurrently}
[[nodiscard]] result<void> write_file_atomically(
    file_system& fs, const std::string& path,
    const std::function<result<void>(file&)>& write);
[[nodiscard]] result<void> write_file_atomically(file_system& fs, const std::string& path,
                                                 bytes_view content);

/// Removes the temporary files that killed writers left of `path`, and of all whose path
/// begins with it: "a/" means the folder. @pre nobody else writes them now
[[nodiscard]] result<void> remove_unfinished(file_system& fs, const std::string& path);

/// "a/b" from "a" and "b".
[[nodiscard]] std::string join_path(const std::string& folder, const std::string& name);
/// Folder part of a path, "." if it has none.
[[nodiscard]] std::string folder_of(const std::string& path);

}  // namespace weir
