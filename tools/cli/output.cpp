// SPDX-License-Identifier: Apache-2.0
/// @file
/// Buffered standard output, whole reads of descriptors, and sizes with units.
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
  if (pending_.size() >= 65536) {
    flush();
  }
}

/// Writes what is pending. After the first failure everything later is dropped, and
/// `close` reports the failure.
void output::flush() {
  std::string_view rest = pending_;
  while (!rest.empty() && failed_ == 0) {
    const ssize_t n = ::write(descriptor_, rest.data(), rest.size());
    if (n >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno != EINTR) {
      failed_ = errno;
    }
  }
  pending_.clear();
}

result<void> output::close() {
  flush();
  if (failed_ != 0 && !(failed_ == EPIPE && reader_may_leave_)) {
    return system_error("write", "standard output", failed_);
  }
  return {};
}

/// Reads all of a descriptor, whose size is not known in advance, up to a limit.
result<byte_vector> read_descriptor(int descriptor, const std::string& name,
                                    std::size_t limit) {
  byte_vector content;
  std::array<std::byte, 65536> piece;
  for (;;) {
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
    if (content.size() + static_cast<std::size_t>(n) > limit) {
      return error(errc::out_of_range,
                   fmt::format("cannot read {}: expected at most {} bytes, found more",
                               name, limit));
    }
    append(content, bytes_view(piece).first(static_cast<std::size_t>(n)));
  }
}

result<byte_vector> read_input(const std::string& path) {
  return path == "-" ? read_descriptor(0, "standard input")
                     : read_file(posix_file_system(), path);
}

/// Reads a size with a binary unit. A product beyond 64 bits is refused like a wrong
/// unit.
result<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, problem] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end,
                              static_cast<std::size_t>(text.data() + text.size() - end));
  std::uint64_t factor = 0;
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

void print_notes(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    fmt::print(stderr, "note: {}\n", text);
  }
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string out = "[";
  for (const std::int64_t n : shape) {
    out += fmt::format("{}{}", out.size() == 1 ? "" : ", ", n);
  }
  return out + "]";
}

}  // namespace weir::tools
