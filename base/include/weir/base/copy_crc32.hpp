// SPDX-License-Identifier: Apache-2.0
/// @file
/// CRC-32 of bytes while they are copied.
#pragma once

#include <cstdint>

#include "weir/base/bytes.hpp"

namespace weir {

/// Copies `from` to `to` and returns `crc32(crc, from)`: one pass over memory for both,
/// which also asks for what follows `from` ahead of time.
/// @pre `to` has room for as many bytes and does not overlap them
[[nodiscard]] std::uint32_t copy_crc32(std::uint32_t crc, bytes_view from,
                                       std::byte* to) noexcept;

}  // namespace weir
