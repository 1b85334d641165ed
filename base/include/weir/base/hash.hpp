// SPDX-License-Identifier: Apache-2.0
/// @file
/// Digests: XXH3-64 of whole spans and of streams, and CRC-32.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "weir/base/bytes.hpp"

namespace weir {

/// XXH3-64 with seed 0. @source{xxHash 0.8, XXH3_64bits}
[[nodiscard]] std::uint64_t xxh3_64(bytes_view bytes) noexcept;

/// XXH3-64 of data that comes in pieces; equals `xxh3_64` of the whole.
/// @threads{thread-compatible}
class xxh3_stream {
 public:
  xxh3_stream();
  ~xxh3_stream();
  xxh3_stream(xxh3_stream&&) noexcept;
  xxh3_stream& operator=(xxh3_stream&&) noexcept;

  void update(bytes_view bytes) noexcept;
  [[nodiscard]] std::uint64_t digest() const noexcept;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

/// CRC-32 as in zlib: reflected polynomial 0xEDB88320; `crc` is the value so far, 0 at
/// the start.
///
/// Starting from a register of zero instead (as HN4's block headers do) is `crc =
/// 0xFFFFFFFF`. Uses carry-less multiplication where the processor has it, else slices of
/// 16 bytes.
[[nodiscard]] std::uint32_t crc32(std::uint32_t crc, bytes_view bytes) noexcept;
/// The table-driven form alone: the oracle of the fast one. Same arguments as `crc32`.
[[nodiscard]] std::uint32_t crc32_portable(std::uint32_t crc, bytes_view bytes) noexcept;

/// 16 lower-case hexadecimal digits.
[[nodiscard]] std::string hex64(std::uint64_t value);

}  // namespace weir
