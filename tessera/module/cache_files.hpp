// SPDX-License-Identifier: Apache-2.0
/// @file
/// Files of the cache: owner, mode, whole reads and writes, names of temporary ones.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"

namespace weir::tessera {

/// A descriptor that is closed in the end; -1 is none.
class private_file {
 public:
  explicit private_file(int descriptor = -1) : descriptor_(descriptor) {}
  private_file(private_file&& other) noexcept : descriptor_(other.release()) {}
  private_file& operator=(private_file&& other) noexcept;
  ~private_file();

  [[nodiscard]] bool is_open() const noexcept { return descriptor_ >= 0; }
  [[nodiscard]] int get() const noexcept { return descriptor_; }
  int release() noexcept;

 private:
  int descriptor_;
};

/// Makes the folder and those above it where they are missing, then refuses it if others
/// could put files into it. @error{invalid_argument}
[[nodiscard]] result<void> prepare_private_folder(const std::string& path);

/// Opens a file for reading if it is regular, ours and not writable for others; a closed
/// object if there is none. @error{corrupt, it is something else, or of somebody else;
/// io}
[[nodiscard]] result<private_file> open_private(const std::string& path);

/// The whole file. @error{io; out_of_range, more than `most` bytes}
[[nodiscard]] result<byte_vector> read_private(const private_file& file,
                                               std::uint64_t most);

/// Writes a new file of mode 0600 under a temporary name in the folder, syncs it, gives
/// it its name, and syncs the folder. While it is written it is locked.
/// @error{io; no_space}
[[nodiscard]] result<void> write_private(const std::string& folder,
                                         const std::string& name, bytes_view head,
                                         bytes_view tail);

/// Removes temporary files whose writers have died.
void remove_abandoned(const std::string& folder);

/// Names of the entries of a folder that end with `suffix`, sorted; none if it cannot be
/// read.
[[nodiscard]] std::vector<std::string> names_in(const std::string& folder,
                                                std::string_view suffix);

}  // namespace weir::tessera
