// SPDX-License-Identifier: Apache-2.0
/// @file
/// Digests of bytes: XXH3-64, at once or in pieces, and CRC-32. They detect damage; they
/// are no protection against an attacker.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "weir/base/bytes.hpp"

namespace weir {

/// Returns the XXH3-64 digest with seed 0.
/// @threads{safe to call concurrently} @source{xxHash 0.8, XXH3_64bits}
[[nodiscard]] std::uint64_t xxh3_64(bytes_view bytes) noexcept;

/// Computes the XXH3-64 digest of data that arrives in pieces.
/// @threads{thread-compatible}
class xxh3_stream {
 public:
  /// Starts the digest of an empty input.
  xxh3_stream();
  ~xxh3_stream();
  /// Takes over the state of another digest, which may only be assigned to or destroyed.
  xxh3_stream(xxh3_stream&&) noexcept;
  /// Replaces the state by that of another digest, which may then only be assigned to or
  /// destroyed.
  xxh3_stream& operator=(xxh3_stream&&) noexcept;

  /// Adds bytes behind those that were added before.
  void update(bytes_view bytes) noexcept;
  /// Returns `xxh3_64` of all bytes so far. More bytes may be added afterwards.
  [[nodiscard]] std::uint64_t digest() const noexcept;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

/// Returns the CRC-32 of zlib, with the reflected polynomial 0xEDB88320.
///
/// Uses carry-less multiplication if the processor has it, and else tables for 16 bytes
/// at a time.
/// @param crc  The CRC of the bytes before these; 0 at the start. CRCs whose register
/// starts with zero instead of ones, such as those of HN4's block headers, begin with
/// 0xFFFFFFFF.
/// @threads{safe to call concurrently}
/// @source{ITU-T V.42, section 8.1.1.6.2}
[[nodiscard]] std::uint32_t crc32(std::uint32_t crc, bytes_view bytes) noexcept;
/// Returns the same as `crc32`, always by tables: the oracle of its tests.
/// @threads{safe to call concurrently}
[[nodiscard]] std::uint32_t crc32_portable(std::uint32_t crc, bytes_view bytes) noexcept;

/// Returns a number as 16 lower-case hexadecimal digits.
/// @threads{safe to call concurrently}
[[nodiscard]] std::string hex64(std::uint64_t value);

}  // namespace weir
