// SPDX-License-Identifier: Apache-2.0
/// @file
/// Compression "lz4": the size as a little-endian u32, then one raw LZ4 block.
#pragma once

#include "tensogram/codec/buffer.hpp"

namespace weir::formats {

/// No LZ4 block decodes to more than this many bytes per stored byte.
inline constexpr std::uint64_t lz4_largest_ratio = 256;

/// @error{invalid_argument, more than LZ4 takes in one block; out_of_memory}
[[nodiscard]] result<code_buffer> lz4_encode(bytes_view from);
/// Fills `to` exactly. @error{corrupt}
[[nodiscard]] result<void> lz4_decode(bytes_view from, const decode_target& to);
/// One raw block without a size in front. @error{corrupt}
[[nodiscard]] result<void> lz4_decode_block(bytes_view from, const decode_target& to);
/// Appends a raw block to `to`; nothing if it would not be smaller than `from`.
[[nodiscard]] bool lz4_append_block(bytes_view from, byte_vector& to);

}  // namespace weir::formats
