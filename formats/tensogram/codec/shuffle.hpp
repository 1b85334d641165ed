// SPDX-License-Identifier: Apache-2.0
/// @file
/// Filter "shuffle": all first bytes, then all second bytes, and so on.
#pragma once

#include "weir/base/bytes.hpp"

namespace weir::formats {

/// Transposes bytes of items of `size` > 0 bytes; what is left behind the last whole item
/// stays where it is. `to` is as large as `from` and does not overlap it.
void shuffle_bytes(bytes_view from, std::size_t size, mutable_bytes to,
                   unsigned threads = 1) noexcept;
void unshuffle_bytes(bytes_view from, std::size_t size, mutable_bytes to,
                     unsigned threads = 1) noexcept;

/// Transposes bits of items: for each byte of an item and each of its bits one row with a
/// bit per item, least significant first. Items beyond the last multiple of 8 stay.
/// @source{Blosc2, filter 2}
void unshuffle_bits(bytes_view from, std::size_t size, mutable_bytes to) noexcept;

}  // namespace weir::formats
