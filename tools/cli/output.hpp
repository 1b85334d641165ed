// SPDX-License-Identifier: Apache-2.0
/// @file
/// Standard output and standard input of a command. A failed write is a failure of the
/// command: a full disk must not look like success.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"

namespace weir::tools {

/// Returns JSON as one line. Paths may have bytes that are not UTF-8; JSON cannot hold
/// them, so each is replaced by U+FFFD.
/// @param value  A value of nlohmann's library, whose header this one does not include.
template <class Json>
[[nodiscard]] std::string json_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Buffered standard output. A failed write is remembered and reported by `close`.
/// @threads{thread-compatible}
class output {
 public:
  /// @param descriptor  Open for writing; it is not closed.
  explicit output(int descriptor = 1) : descriptor_(descriptor) {}

  /// Formats with fmt and writes the result.
  template <class... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    write(fmt::format(format, std::forward<Args>(args)...));
  }
  /// Writes a text.
  void write(std::string_view text);
  /// Writes bytes as they are.
  void write(bytes_view bytes) { write(as_text(bytes)); }
  /// Passes everything that was written to the operating system.
  void flush();
  /// Declares that a reader who has closed the output by now, or does so later, is no
  /// failure, because the command has done what it had to do.
  void reader_may_leave() { reader_may_leave_ = true; }
  /// Returns whether a write has failed, so that what is written is lost.
  [[nodiscard]] bool lost() const { return failed_ != 0; }
  /// Flushes, and returns the first failure of any write.
  /// @error{io, no_space, a write to standard output failed}
  [[nodiscard]] result<void> close();

 private:
  int descriptor_;
  int failed_ = 0;  ///< errno of the first failure
  bool reader_may_leave_ = false;
  std::string pending_;
};

/// Reads a descriptor to its end.
/// @param name   Name of the source for error messages.
/// @param limit  Largest number of bytes to keep.
/// @error{io, a read failed} @error{out_of_range, there are more than `limit` bytes}
[[nodiscard]] result<byte_vector> read_descriptor(int descriptor, const std::string& name,
                                                  std::size_t limit = std::size_t{1}
                                                                      << 34);

/// Reads a file, or standard input if the path is "-".
/// @error{not_found, the file does not exist} @error{io, a read failed}
/// @error{torn, the file became shorter meanwhile}
/// @error{out_of_range, standard input is too large}
[[nodiscard]] result<byte_vector> read_input(const std::string& path);

/// Parses a size: "4096", "64MiB", "1GiB".
/// @units{return value, bytes}
/// @error{invalid_argument, not a whole number with one of the units B, KiB, MiB, GiB,
/// TiB, or too large}
[[nodiscard]] result<std::uint64_t> parse_size(std::string_view text);

/// Prints each text as a line "note: TEXT" on standard error.
void print_notes(const std::vector<std::string>& texts);

/// Returns a shape as "[128, 64]".
[[nodiscard]] std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace weir::tools
