// SPDX-License-Identifier: Apache-2.0
/// @file
/// The files that a source reads one after another: one file, or those of a folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/file.hpp"
#include "weir/pipeline/figures.hpp"

namespace weir::actors {

/// Order of the files of a folder.
enum class name_order : std::uint8_t {
  natural,  ///< numbers in names count as numbers: a2 stands before a10
  bytes     ///< by the bytes of the names: a10 stands before a2
};

/// Returns whether a name stands before another one in the natural order. Names that
/// differ only in leading zeros of numbers are ordered by their bytes.
[[nodiscard]] bool natural_less(std::string_view a, std::string_view b);

/// Opens a file for reading, but no pipe: that would wait for a writer for ever.
/// @error{unsupported, the path is a named pipe} @error{not_found, there is no such file}
/// @error{io, the file cannot be opened}
[[nodiscard]] result<std::unique_ptr<file>> open_no_pipe(file_system& fs,
                                                         const std::string& path);

/// Files in the order in which they are read.
/// @threads{const members are safe to call concurrently}
class file_list {
 public:
  /// Finds the files. @param path  A file or a folder. @param pattern  Names of the
  /// folder that are read; `*` stands for any text, `?` for one character.
  /// @error{not_found, there is no such path} @error{io, the folder cannot be read}
  /// @error{unsupported, the path is a named pipe}
  [[nodiscard]] static result<file_list> find(file_system& fs, const std::string& path,
                                              std::string_view pattern, name_order order);
  /// Says so if there is no file, because the pattern may be a mistake.
  void report(figures& to) const;
  /// Returns the number of files.
  [[nodiscard]] std::size_t size() const noexcept { return paths_.size(); }
  /// Returns the path of a file. @pre `number < size()`
  [[nodiscard]] const std::string& path(std::size_t number) const {
    return paths_[number];
  }
  /// Returns the name of a file without its folder. @pre `number < size()`
  [[nodiscard]] const std::string& name(std::size_t number) const {
    return names_[number];
  }
  /// Returns a digest of the names of the first files. @pre `count <= size()`
  [[nodiscard]] std::uint64_t identity(std::size_t count) const {
    return count == 0 ? 0 : identities_[count - 1];
  }

 private:
  std::string searched_;  ///< where it was looked for files, in words
  std::vector<std::string> paths_;
  std::vector<std::string> names_;
  std::vector<std::uint64_t> identities_;  ///< of the files up to each, with it
};

}  // namespace weir::actors
