// SPDX-License-Identifier: Apache-2.0
/// @file
/// Files of the cache: checks of owner and mode, complete reads and writes, and temporary
/// names.
///
/// The cache uses these functions for all its files. They trust neither the folder nor
/// the files that they find there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"

namespace weir::tessera {

/// A file descriptor that the destructor closes; -1: none.
class private_file {
 public:
  explicit private_file(int descriptor = -1) : descriptor_(descriptor) {}
  private_file(private_file&& other) noexcept : descriptor_(other.release()) {}
  private_file& operator=(private_file&& other) noexcept;
  ~private_file();

  /// Returns true if there is a descriptor.
  [[nodiscard]] bool is_open() const noexcept { return descriptor_ >= 0; }
  /// Returns the descriptor, which stays with this object.
  [[nodiscard]] int get() const noexcept { return descriptor_; }
  /// Returns the descriptor, which the caller closes from now on.
  int release() noexcept;

 private:
  int descriptor_;
};

/// Makes the folder and missing folders above it. Refuses a folder into which other users
/// could put files.
/// @error{invalid_argument; no folder, or one that is refused}
[[nodiscard]] result<void> prepare_private_folder(const std::string& path);

/// Opens a regular file of this user that others cannot write. Returns an empty object if
/// there is no such file.
/// @error{corrupt; it is not a regular file, or belongs to another user or is writable
/// for others}
/// @error{io; it cannot be opened}
[[nodiscard]] result<private_file> open_private(const std::string& path);

/// Reads a whole file. @error{io; it cannot be read} @error{out_of_range; more than
/// `max_bytes` bytes}
[[nodiscard]] result<byte_vector> read_private(const private_file& file,
                                               std::uint64_t max_bytes);

/// Writes a new file of mode 0600 under a temporary name, syncs it, renames it and syncs
/// the folder. The file is locked while it is written.
/// @error{io; it cannot be written} @error{no_space; the disk is full}
[[nodiscard]] result<void> write_private(const std::string& folder,
                                         const std::string& name, bytes_view head,
                                         bytes_view tail);

/// Removes temporary files whose writers have ended.
void remove_abandoned(const std::string& folder);

/// Returns the sorted names in a folder that end with `suffix`; none if it cannot be
/// read.
[[nodiscard]] std::vector<std::string> names_in(const std::string& folder,
                                                std::string_view suffix);

}  // namespace weir::tessera
