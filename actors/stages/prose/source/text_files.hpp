// SPDX-License-Identifier: Apache-2.0
/// @file
/// The bytes of several texts, without the ranges that are left out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weir/base/file.hpp"
#include "weir/storage/context_source.hpp"

namespace weir::actors {

/// Bytes that follow one another in a text.
struct text_block {
  byte_vector bytes;
  /// The text ends behind them: its file ends, or a range begins that is left out.
  bool last = false;
  /// The range, if one begins behind them.
  std::optional<storage::left_out_range> left_out;
};

/// The files of a source of texts. Their sizes are taken once, and bytes that cannot be
/// read are left out by policy.
/// @threads{thread-compatible}
class text_files {
 public:
  /// @param fs            Must outlive the object.
  /// @param skips_damage  Leaves out pages that the system cannot read.
  text_files(file_system& fs, std::vector<std::string> paths, bool skips_damage)
      : fs_(fs), paths_(std::move(paths)), skips_damage_(skips_damage) {}

  /// Takes sizes and times of changes.
  /// @error{source_unavailable, a file is missing, unreadable or empty}
  [[nodiscard]] result<void> measure();
  /// Returns the number of files.
  [[nodiscard]] std::size_t count() const noexcept { return paths_.size(); }
  /// Returns the path of a file.
  [[nodiscard]] const std::string& path(std::uint64_t file) const { return paths_[file]; }
  /// Returns the size of a file in bytes, as `measure` found it.
  [[nodiscard]] std::uint64_t size(std::uint64_t file) const { return sizes_[file]; }

  /// Reads up to 64 KiB from a byte of a file on, up to its end or to a range that is
  /// left out. A range that cannot be read is found here.
  /// @error{source_unavailable, the bytes cannot be read} @error{out_of_range, too many
  /// ranges} @error{history_mismatch, the file was changed}
  [[nodiscard]] result<text_block> read(std::uint64_t file, std::uint64_t offset);
  /// Returns the digest of the last 4096 bytes of a text before a byte. The text begins
  /// with its file or behind a range that is left out. Errors are those of `read`.
  [[nodiscard]] result<std::uint64_t> digest_before(std::uint64_t file,
                                                    std::uint64_t offset) const;
  /// Returns where the text begins that holds a byte.
  [[nodiscard]] std::uint64_t begin_of(std::uint64_t file, std::uint64_t offset) const {
    return left_out_.last_end(file, offset);
  }

  /// Leaves the ranges out that the user names. Those that a cursor knows stay as they
  /// are, and others must begin at or behind a byte of a file.
  /// @returns the ranges that are new, in the order in which they were named
  /// @error{config_mismatch, a new range begins before the byte} @error{not_found,
  /// out_of_range, a range is none of the files}
  [[nodiscard]] result<std::vector<storage::left_out_range>> leave_out(
      const std::vector<storage::file_range>& asked, std::uint64_t file,
      std::uint64_t offset);
  /// Returns the ranges that begin at or before a byte of a file.
  [[nodiscard]] storage::left_out_list left_out(std::uint64_t file,
                                                std::uint64_t offset) const;
  /// Takes over the ranges of a cursor. Returns false if one is not within its file.
  [[nodiscard]] bool take(storage::left_out_list known);

 private:
  [[nodiscard]] result<void> read_bytes(std::uint64_t number, std::uint64_t offset,
                                        mutable_bytes to) const;
  [[nodiscard]] result<bool> find_damage(std::uint64_t number, std::uint64_t offset,
                                         std::uint64_t count, std::uint64_t end);

  file_system& fs_;
  std::vector<std::string> paths_;
  bool skips_damage_;
  std::vector<std::uint64_t> sizes_;
  std::vector<std::int64_t> times_;  ///< of the last changes, when they were measured
  storage::left_out_list left_out_;
};

}  // namespace weir::actors
