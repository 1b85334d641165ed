// SPDX-License-Identifier: Apache-2.0
/// @file
/// Compact forms of bit lists: run lengths and Roaring bitmaps. A list of n bits is
/// packed into ceil(n / 8) bytes, the most significant bit first; unused bits are zero.
#pragma once

#include <cstdint>

#include "tensogram/codec/buffer.hpp"
#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"

namespace weir::formats {

/// Encodes as a start bit followed by run lengths in LEB128. No bits give no bytes.
[[nodiscard]] byte_vector rle_encode(bytes_view bits, std::uint64_t count);
/// Decodes run lengths into `to`, which has ceil(count / 8) bytes. @error{corrupt, a run
/// of length zero, a total other than `count` bits, or bytes behind the last run}
[[nodiscard]] result<void> rle_decode(bytes_view from, std::uint64_t count,
                                      const decode_target& to);

/// Encodes in the portable Roaring format, with run containers where they are smaller.
/// @error{invalid_argument, more than 2^32 - 1 bits}
[[nodiscard]] result<byte_vector> roaring_encode(bytes_view bits, std::uint64_t count);
/// Decodes Roaring into `to`, which has ceil(count / 8) bytes. @error{corrupt}
[[nodiscard]] result<void> roaring_decode(bytes_view from, std::uint64_t count,
                                          const decode_target& to);

/// Returns bit `i`.
[[nodiscard]] inline bool bit_at(bytes_view bits, std::uint64_t i) noexcept {
  return (std::to_integer<unsigned>(bits[i / 8]) >> (7 - i % 8) & 1u) != 0;
}
/// Sets bit `i`.
inline void set_bit(mutable_bytes bits, std::uint64_t i) noexcept {
  bits[i / 8] |= static_cast<std::byte>(0x80u >> (i % 8));
}
/// Sets bits `[first, last)`.
void set_bits(mutable_bytes bits, std::uint64_t first, std::uint64_t last) noexcept;
/// Returns the end of the run of equal bits that starts at `from`, at most `count`.
[[nodiscard]] std::uint64_t run_end(bytes_view bits, std::uint64_t from,
                                    std::uint64_t count) noexcept;

/// Calls `use(i)` for every set bit, in order.
template <class Use>
void for_each_bit(bytes_view bits, const Use& use) {
  for (std::size_t k = 0; k < bits.size(); ++k) {
    auto byte = std::to_integer<unsigned>(bits[k]);
    for (unsigned i = 0; byte != 0 && i < 8; ++i) {
      if ((byte & (0x80u >> i)) != 0) {
        use(std::uint64_t{k} * 8 + i);
      }
    }
  }
}

}  // namespace weir::formats
