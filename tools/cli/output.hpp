// SPDX-License-Identifier: Apache-2.0
/// @file
/// Standard output and standard input of a command: nothing that was not written counts
/// as printed.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"

namespace weir::tools {

/// Buffered standard output; a failed write is reported by `close`.
/// @threads{thread-compatible}
class output {
 public:
  explicit output(int descriptor = 1) : descriptor_(descriptor) {}

  template <class... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    write(fmt::format(format, std::forward<Args>(args)...));
  }
  void write(std::string_view text);
  void write(bytes_view bytes) { write(as_text(bytes)); }
  void flush();
  /// Flushes; the first failure of any write. @error{io, names standard output}
  [[nodiscard]] result<void> close();

 private:
  int descriptor_;
  int failed_ = 0;  // errno of the first failure
  std::string pending_;
};

/// Everything on a descriptor up to its end. @error{io; out_of_range, more than `limit`
/// bytes}
[[nodiscard]] result<byte_vector> read_descriptor(int descriptor, const std::string& name,
                                                  std::size_t limit = std::size_t{1}
                                                                      << 34);

/// A file, or standard input for "-". @error{not_found, io}
[[nodiscard]] result<byte_vector> read_input(const std::string& path);

/// Bytes from "64MiB", "4096", "1GiB". @error{invalid_argument, another unit or no
/// number}
[[nodiscard]] result<std::uint64_t> parse_size(std::string_view text);

/// Shape as "[128, 64]".
[[nodiscard]] std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace weir::tools
