// SPDX-License-Identifier: Apache-2.0
/// @file
/// Digests: SHA-256, which names modules and entries of caches, and the id of this build.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"

namespace weir::tessera {

/// A SHA-256 digest.
using digest256 = std::array<std::byte, 32>;

/// Returns the SHA-256 of bytes. @source{FIPS 180-4}
[[nodiscard]] digest256 sha256(bytes_view bytes);

/// SHA-256 of data in pieces; it equals `sha256` of the whole.
///
/// `number` and `text` add values so that no two sequences of values give the same bytes:
/// numbers as eight little-endian bytes, texts behind their length.
/// @threads{thread-compatible}
class sha256_stream {
 public:
  /// Begins a digest.
  sha256_stream();
  ~sha256_stream();
  sha256_stream(const sha256_stream&) = delete;
  sha256_stream& operator=(const sha256_stream&) = delete;

  /// Adds bytes.
  void update(bytes_view bytes);
  /// Adds a number.
  void number(std::uint64_t value);
  /// Adds a text.
  void text(std::string_view value);
  /// Returns the digest. Called once, at the end.
  [[nodiscard]] digest256 digest();

 private:
  struct state;
  std::unique_ptr<state> state_;
};

/// Returns two lower-case hexadecimal digits for each byte.
[[nodiscard]] std::string to_hex(bytes_view bytes);
/// Reads exactly `to.size()` bytes from hexadecimal digits of either case.
/// @error{invalid_argument; another length or another character}
[[nodiscard]] result<void> from_hex(std::string_view text, mutable_bytes to);

/// Returns the build id that the linker put into the shared object or program that
/// contains this library, in hexadecimal digits: two builds of different code have
/// different ids. Empty if the linker was told to put none in.
/// @threads{safe from any thread}
[[nodiscard]] const std::string& library_build();

}  // namespace weir::tessera
