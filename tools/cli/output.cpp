// SPDX-License-Identifier: Apache-2.0
/// @file
/// Buffered standard output, whole reads of descriptors, and sizes with units.
///
/// Standard output is buffered here and not by the C library, so that the first error of
/// writing is kept and reported at the end with its reason.
#include "output.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "weir/base/file.hpp"

namespace weir::tools {

void output::write(std::string_view text) {
  pending_ += text;
  // Large enough that a system call costs little for each line, and small enough that a
  // reader sees progress.
  if (pending_.size() >= 65536) {
    flush();
  }
}

/// Writes what is pending. After the first failure everything later is dropped, and
/// `close` reports the failure.
void output::flush() {
  // A call may write less than it was given, so it is repeated with the rest.
  std::string_view rest = pending_;
  while (!rest.empty() && failed_ == 0) {
    const ssize_t n = ::write(descriptor_, rest.data(), rest.size());
    if (n >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno != EINTR) {
      // A signal is no failure: the call is repeated.
      // From now on the loop ends at once.
      failed_ = errno;
    }
  }
  pending_.clear();
}

result<void> output::close() {
  flush();
  // A reader that closes the pipe early, as `head` does, is no failure once the results
  // are safe elsewhere. Before that, the caller should know.
  if (failed_ != 0 && !(failed_ == EPIPE && reader_may_leave_)) {
    return system_error("write", "standard output", failed_);
  }
  return {};
}

/// Reads all of a descriptor, whose size is not known in advance, up to a limit.
result<byte_vector> read_descriptor(int descriptor, const std::string& name,
                                    std::size_t limit) {
  byte_vector content;
  // One buffer for all calls. Its size is that of a pipe of Linux.
  std::array<std::byte, 65536> piece;
  for (;;) {
    // Zero means the end of the input, for pipes and terminals, too.
    const ssize_t n = ::read(descriptor, piece.data(), piece.size());
    if (n == 0) {
      return content;
    }
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return system_error("read", name, errno);
    }
    // Checked before the bytes are kept, so at most one piece above the limit is in
    // memory.
    if (content.size() + static_cast<std::size_t>(n) > limit) {
      return error(errc::out_of_range,
                   fmt::format("cannot read {}: expected at most {} bytes, found more",
                               name, limit));
    }
    append(content, bytes_view(piece).first(static_cast<std::size_t>(n)));
  }
}

result<byte_vector> read_input(const std::string& path) {
  // A file is read with its size known. "-" is how most tools name standard input.
  return path == "-" ? read_descriptor(0, "standard input")
                     : read_file(posix_file_system(), path);
}

/// Reads a size with a binary unit. A product beyond 64 bits is refused like a wrong
/// unit.
result<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, problem] =
      // Signs and spaces are refused, because `from_chars` accepts neither.
      std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end,
                              static_cast<std::size_t>(text.data() + text.size() - end));
  // Stays zero for unknown units, which then fail below.
  std::uint64_t factor = 0;
  // A number without a unit counts bytes. Units of powers of ten are not accepted, since
  // many programs mean powers of two by them.
  if (unit.empty() || unit == "B") {
    factor = 1;
  } else if (unit == "KiB") {
    factor = std::uint64_t{1} << 10;
  } else if (unit == "MiB") {
    factor = std::uint64_t{1} << 20;
  } else if (unit == "GiB") {
    factor = std::uint64_t{1} << 30;
  } else if (unit == "TiB") {
    factor = std::uint64_t{1} << 40;
  }
  std::uint64_t bytes = 0;
  if (problem != std::errc() || factor == 0 || !checked_mul(number, factor, bytes)) {
    return error(
        errc::invalid_argument,
        fmt::format(
            "cannot read a size: expected a number with B, KiB, MiB, GiB or TiB, found "
            "\"{}\"",
            text));
  }
  return bytes;
}

/// Prints remarks that are neither errors nor warnings, such as enlarged windows.
void print_notes(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    fmt::print(stderr, "note: {}\n", text);
  }
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string out = "[";
  for (const std::int64_t n : shape) {
    // Only the opening bracket is there before the first extent.
    out += fmt::format("{}{}", out.size() == 1 ? "" : ", ", n);
  }
  return out + "]";
}

}  // namespace weir::tools
