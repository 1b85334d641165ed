// SPDX-License-Identifier: Apache-2.0
/// @file
/// Filter "shuffle": stores the first bytes of all items, then all second bytes, and so
/// on. Bytes of equal significance are similar, which codecs exploit.
#pragma once

#include "weir/base/bytes.hpp"

namespace weir::formats {

/// Transposes the bytes of items of `size` > 0 bytes. Bytes behind the last whole item
/// keep their positions. `to` is as large as `from` and does not overlap it. With several
/// threads, throws std::bad_alloc if there is no memory for asking them.
void shuffle_bytes(bytes_view from, std::size_t size, mutable_bytes to,
                   unsigned threads = 1);
/// Reverses shuffle_bytes().
void unshuffle_bytes(bytes_view from, std::size_t size, mutable_bytes to,
                     unsigned threads = 1);

/// Reverses a transposition of bits. The shuffled form has one row for each byte of an
/// item and each of its bits; a row has one bit per item, least significant first. Items
/// beyond the last multiple of 8 keep their positions. @source{Blosc2, filter 2}
void unshuffle_bits(bytes_view from, std::size_t size, mutable_bytes to) noexcept;

}  // namespace weir::formats
