// SPDX-License-Identifier: Apache-2.0
/// @file
/// Lines of text files, and the texts that they hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/error.hpp"

namespace weir::actors {

/// Largest length of a line. @units{bytes}
inline constexpr std::size_t max_text_line = std::size_t{16} << 20;

/// One line of a file.
struct text_line {
  std::uint64_t number = 0;  ///< counts from 1
  std::uint64_t offset = 0;  ///< of its first byte in the file
  std::string bytes;         ///< without the end of the line; empty if it is too long
  bool too_long = false;     ///< it has more than `max_text_line` bytes
};

/// Reads a file or a pipe line by line. A line ends with LF or CR LF; the last one need
/// not.
/// @threads{thread-compatible}
class text_line_reader {
 public:
  /// Opens a file, or standard input if the path is "-".
  /// @error{not_found, io, the file cannot be opened}
  [[nodiscard]] static result<text_line_reader> open(const std::string& path);
  /// Goes to a line.
  /// @param number  Number of the line, from 1. @param offset  Its first byte.
  /// @error{unsupported, io, the file cannot be read from there}
  [[nodiscard]] result<void> go_to(std::uint64_t number, std::uint64_t offset);
  /// Returns the number that the next line will have.
  [[nodiscard]] std::uint64_t next_number() const noexcept { return number_ + 1; }
  /// Returns the offset that the next line will have. @units{bytes}
  [[nodiscard]] std::uint64_t next_offset() const noexcept { return offset_; }
  /// Returns the next line; nothing at the end of the file.
  /// @error{io, the file cannot be read}
  [[nodiscard]] result<std::optional<text_line>> next();

 private:
  struct closer {
    void operator()(std::FILE* stream) const noexcept;
  };
  text_line_reader(std::string path, std::FILE* stream)
      : path_(std::move(path)), stream_(stream) {}
  /// Reads more bytes. Returns false at the end of the file.
  result<bool> refill();

  std::string path_;
  std::unique_ptr<std::FILE, closer> stream_;
  std::vector<char> buffer_;
  std::size_t at_ = 0;        ///< first byte of the buffer that was not taken
  std::uint64_t number_ = 0;  ///< lines so far
  std::uint64_t offset_ = 0;  ///< bytes that were taken
};

/// Returns the text of a line: the line itself, or, if `field` is not empty, the string
/// that a JSON object has under this name.
/// @error{corrupt, the line is too long, has NUL, is not UTF-8 or no such JSON}
[[nodiscard]] result<std::string> text_of_line(text_line line, const std::string& field);

}  // namespace weir::actors
