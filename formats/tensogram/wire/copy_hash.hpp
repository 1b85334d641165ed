// SPDX-License-Identifier: Apache-2.0
/// @file
/// Copying and hashing in one pass: each piece is hashed while the caches still hold it.
#pragma once

#include <algorithm>
#include <cstring>

#include "weir/base/bytes.hpp"
#include "weir/base/hash.hpp"

namespace weir::formats {

/// Bytes at a time: source and target fit in a first-level cache, half of it each. A
/// multiple of every element size.
inline constexpr std::size_t copy_piece = 16 * 1024;

/// Copies `from` to `to`, which is as large, and feeds it to `digest`.
inline void copy_and_hash(bytes_view from, mutable_bytes to, xxh3_stream& digest) {
  for (std::size_t at = 0; at < from.size(); at += copy_piece) {
    const std::size_t count = std::min(copy_piece, from.size() - at);
    std::memcpy(to.data() + at, from.data() + at, count);
    digest.update(to.subspan(at, count));
  }
}

}  // namespace weir::formats
