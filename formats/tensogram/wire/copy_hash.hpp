// SPDX-License-Identifier: Apache-2.0
/// @file
/// Copying and hashing in one pass: each piece is hashed while the caches still hold it.
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "weir/base/bytes.hpp"
#include "weir/base/hash.hpp"

namespace weir::formats {

/// Size of a piece in bytes: source and target fit in a first-level cache of 32 KiB, half
/// of it each. A multiple of every element size.
inline constexpr std::size_t copy_piece = 16 * 1024;

/// Copies `from` to `to`, which is as large, with stores that bypass the caches. The
/// target is then not read first, and cached data stays cached. Useful for targets that
/// are not read soon. The stores are weakly ordered: finish_copies() must follow the last
/// piece before another thread reads the target.
///
/// The stores bypass the caches only for whole lines of 64 bytes, which is why the copy
/// begins with the bytes up to the first whole line of the target.
inline void copy_past_caches(bytes_view from, std::byte* to) noexcept {
#if defined(__SSE2__)
  constexpr std::size_t line = 64;
  const std::size_t before =
      std::min(from.size(), (line - reinterpret_cast<std::uintptr_t>(to) % line) % line);
  std::memcpy(to, from.data(), before);
  std::size_t i = before;
  for (; i + line <= from.size(); i += line) {
    const auto* source = reinterpret_cast<const __m128i*>(from.data() + i);
    auto* target = reinterpret_cast<__m128i*>(to + i);
    const __m128i a = _mm_loadu_si128(source);
    const __m128i b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2);
    const __m128i d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  std::memcpy(to + i, from.data() + i, from.size() - i);
#else
  std::memcpy(to, from.data(), from.size());
#endif
}

/// Makes the bytes that copy_past_caches() has written visible to other threads.
inline void finish_copies() noexcept {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

/// Copies `from` to `to`, which is as large, and feeds it to `digest`.
inline void copy_and_hash(bytes_view from, mutable_bytes to, xxh3_stream& digest) {
  for (std::size_t offset = 0; offset < from.size(); offset += copy_piece) {
    const std::size_t count = std::min(copy_piece, from.size() - offset);
    std::memcpy(to.data() + offset, from.data() + offset, count);
    digest.update(to.subspan(offset, count));
  }
}

}  // namespace weir::formats
