// SPDX-License-Identifier: Apache-2.0
/// @file
/// The files of a source, or a tag of several volumes, as byte ranges by number.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weir/base/file.hpp"
#include "weir/storage/hn4_stream.hpp"

namespace weir::storage {

/// Opens and reads the leaves of a source. Only a few files are open at a time: a set may
/// hold more files than a process may open.
class token_leaves {
 public:
  /// Makes the leaves of files, or of a tag of volumes unless `tag` is empty.
  token_leaves(file_system& fs, std::vector<std::string> paths, std::string tag);

  /// Opens every leaf once and takes sizes and times of changes.
  /// @error{source_unavailable, a leaf is missing, unreadable or empty}
  /// @error{not_found, a volume has no such tag}
  [[nodiscard]] result<void> measure();

  /// Returns the number of leaves.
  [[nodiscard]] std::size_t count() const noexcept { return paths_.size(); }
  /// Returns the path of a leaf, with its tag if it is one of a volume.
  [[nodiscard]] const std::string& name(std::size_t leaf) const { return names_[leaf]; }
  /// Returns the path of a leaf's file.
  [[nodiscard]] const std::string& path(std::size_t leaf) const { return paths_[leaf]; }
  /// Returns the size of a leaf in bytes, as `measure` found it.
  [[nodiscard]] std::uint64_t size(std::size_t leaf) const { return sizes_[leaf]; }
  /// Returns whether the leaves are parts of volumes, whose blocks have checksums.
  [[nodiscard]] bool checked() const noexcept { return !tag_.empty(); }

  /// Returns an open file that reads the leaf. It is valid until the next call.
  /// @error{source_unavailable, the file cannot be opened}
  [[nodiscard]] result<file*> open(std::size_t leaf);
  /// Reads bytes of a leaf. @error{source_unavailable, they cannot be read, or the leaf
  /// has become shorter}
  [[nodiscard]] result<void> read(std::size_t leaf, std::uint64_t offset,
                                  mutable_bytes to);
  /// Returns how many bytes of a leaf from `offset` on can be read, at most `count`, and
  /// the end of the damaged range behind them: a block of a volume that fails its checks,
  /// or pages of a file that the system cannot read.
  struct sound_part {
    std::uint64_t sound = 0;  ///< bytes that can be read
    std::uint64_t end = 0;    ///< end of the damaged range; `offset + sound` if none
  };
  /// @error{source_unavailable, the device of a volume cannot be read, or a file became
  /// shorter}
  [[nodiscard]] result<sound_part> probe(std::size_t leaf, std::uint64_t offset,
                                         std::size_t count);
  /// Returns the time at which a file was changed if that was after `measure`.
  [[nodiscard]] std::optional<std::int64_t> changed_at(std::size_t leaf) const;
  /// Returns whether a file is longer than it was, which is no change of what it held.
  [[nodiscard]] result<bool> grown(std::size_t leaf);

 private:
  /// An open file and the time of its last use.
  struct slot {
    std::size_t leaf = 0;
    std::uint64_t used = 0;
    std::unique_ptr<file> f;
  };
  [[nodiscard]] result<std::unique_ptr<file>> open_leaf(std::size_t leaf);
  [[nodiscard]] result<sound_part> probe_file(std::size_t leaf, std::uint64_t offset,
                                              std::size_t count);

  file_system& fs_;
  std::vector<std::string> paths_;
  std::string tag_;
  std::vector<std::string> names_;
  std::vector<std::uint64_t> sizes_;
  std::vector<std::int64_t> times_;  ///< of the last changes, when they were measured
  std::vector<hn4_stream> streams_;  ///< of the tag, if there is one
  std::vector<slot> slots_;
  std::uint64_t clock_ = 0;  ///< counts uses; orders the open files by their last use
};

}  // namespace weir::storage
