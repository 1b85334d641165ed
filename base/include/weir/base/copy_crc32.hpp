// SPDX-License-Identifier: Apache-2.0
/// @file
/// Copying bytes and computing their CRC-32 in one pass over memory.
#pragma once

#include <cstdint>

#include "weir/base/bytes.hpp"

namespace weir {

/// Copies `from` to `destination` and returns `crc32(crc, from)`.
///
/// The pass also prefetches the memory behind `from`, because callers copy consecutive
/// blocks and the processor's own prefetching stops at the end of a page.
/// @param destination  from.size() writable bytes, which do not overlap `from`.
/// @threads{safe to call concurrently}
[[nodiscard]] std::uint32_t copy_crc32(std::uint32_t crc, bytes_view from,
                                       std::byte* destination) noexcept;

}  // namespace weir
