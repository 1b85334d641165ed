// SPDX-License-Identifier: Apache-2.0
/// @file
/// Ranges of files that a token source leaves out, because they cannot be read or because
/// the user asks for it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/base/record.hpp"

namespace weir::storage {

/// A range of a file that the user wants to be left out.
struct file_range {
  std::string file;         ///< its path, or its name alone
  std::uint64_t begin = 0;  ///< number of the first id in the file; of a text: its byte
  std::uint64_t end = 0;    ///< number behind the last id
  friend bool operator==(const file_range&, const file_range&) = default;
};

/// A range of a leaf of a source that the source leaves out.
struct left_out_range {
  std::uint64_t leaf = 0;   ///< number of the leaf, counted as in `source_identity`
  std::uint64_t byte = 0;   ///< offset of its first byte
  std::uint64_t bytes = 0;  ///< at least 1
  bool by_hand = false;     ///< the user asked for it; else it could not be read
  friend bool operator==(const left_out_range&, const left_out_range&) = default;
};
/// Largest number of ranges that a source leaves out. More of them mean that the format
/// or the vocabulary is a wrong one.
inline constexpr std::size_t max_left_out = 1024;

/// Returns the numbers of the files of which a range is one. A name whose folder is none
/// of theirs stands for the one file that has the name, so that files may move.
/// @error{not_found, there is no such file, or several have the name}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::vector<std::uint64_t>> files_of(
    const file_range& range, std::span<const std::string> paths);
/// Returns the error of a range that is not within its file.
/// @param tokens  Tokens of the file; bytes of a text.
/// @threads{safe to call concurrently}
[[nodiscard]] error outside_of_file(const file_range& range, std::string_view name,
                                    std::uint64_t tokens);
/// Returns the error of a range of which tokens were consumed before the user named it.
/// @threads{safe to call concurrently}
[[nodiscard]] error consumed_range(const left_out_range& range, std::string_view name);

/// The ranges that a source leaves out, in the order of leaves and bytes. Ranges of one
/// kind do not touch each other, and those of different kinds do not overlap.
/// @threads{thread-compatible}
class left_out_list {
 public:
  /// Returns the ranges. They are valid until the list changes.
  [[nodiscard]] std::span<const left_out_range> all() const noexcept { return all_; }
  /// Returns whether the user asked for one of the ranges.
  [[nodiscard]] bool any_by_hand() const noexcept;
  /// Returns the first range that ends behind a byte of a leaf, or null.
  [[nodiscard]] const left_out_range* first_behind(std::uint64_t leaf,
                                                   std::uint64_t byte) const noexcept;
  /// Returns the end of the last range of a leaf that ends at or before a byte; 0 if
  /// there is none.
  [[nodiscard]] std::uint64_t last_end(std::uint64_t leaf,
                                       std::uint64_t byte) const noexcept;
  /// Returns the parts of a range that no range of the list covers whose kind is given.
  [[nodiscard]] std::vector<left_out_range> outside(const left_out_range& whole,
                                                    bool by_hand) const;
  /// Adds a range. Ranges of its kind that it touches become one with it, and what ranges
  /// of the other kind cover stays theirs.
  /// @param name  Name of the leaf, for messages.
  /// @error{out_of_range, there would be more than `max_left_out`}
  [[nodiscard]] result<void> add(const left_out_range& range, std::string_view name);
  /// Removes ranges that begin behind a byte of a leaf, or in a later leaf.
  void keep_until(std::uint64_t leaf, std::uint64_t byte);

  /// Appends the number of ranges and the ranges. Only a list with ranges by hand needs
  /// `with_kind`.
  void put(record_writer& to, bool with_kind) const;
  /// Reads what `put` has written.
  /// @returns false if the bytes are no list; the list is then empty
  [[nodiscard]] bool get(record_reader& from, bool with_kind);
  friend bool operator==(const left_out_list&, const left_out_list&) = default;

 private:
  [[nodiscard]] bool is_ordered() const noexcept;
  std::vector<left_out_range> all_;
};

}  // namespace weir::storage
