// SPDX-License-Identifier: Apache-2.0
/// @file
/// Copying and hashing in one pass: each piece is hashed while the caches still hold it.
#pragma once

#include <algorithm>
#include <cstring>

#include "weir/base/bytes.hpp"
#include "weir/base/hash.hpp"

namespace weir::formats {

inline constexpr std::size_t copy_piece = 128
                                          << 10;  ///< half of a small second-level cache

/// Copies `from` to `to`, which is as large, and feeds it to `digest`.
inline void copy_and_hash(bytes_view from, mutable_bytes to, xxh3_stream& digest) {
  for (std::size_t at = 0; at < from.size(); at += copy_piece) {
    const std::size_t count = std::min(copy_piece, from.size() - at);
    std::memcpy(to.data() + at, from.data() + at, count);
    digest.update(to.subspan(at, count));
  }
}

/// The same at the end of a vector whose capacity suffices.
inline void append_and_hash(byte_vector& to, bytes_view from, xxh3_stream& digest) {
  for (std::size_t at = 0; at < from.size(); at += copy_piece) {
    const bytes_view piece = from.subspan(at, std::min(copy_piece, from.size() - at));
    append(to, piece);
    digest.update(piece);
  }
}

}  // namespace weir::formats
