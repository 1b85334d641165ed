// SPDX-License-Identifier: Apache-2.0
/// @file
/// Compression "lz4": the decoded size as a little-endian u32, then one raw LZ4 block.
#pragma once

#include "tensogram/codec/buffer.hpp"

namespace weir::formats {

/// No LZ4 block decodes to more than this many bytes per stored byte (LZ4 Block Format: a
/// length byte stands for at most 255).
inline constexpr std::uint64_t lz4_largest_ratio = 256;

/// Compresses `from` with its size in front. @error{invalid_argument, more than LZ4 takes
/// in one block; out_of_memory}
[[nodiscard]] result<code_buffer> lz4_encode(bytes_view from);
/// Decompresses to exactly `to.size()` bytes. @error{corrupt}
[[nodiscard]] result<void> lz4_decode(bytes_view from, const decode_target& to);
/// Decompresses one raw block without a size in front. @error{corrupt}
[[nodiscard]] result<void> lz4_decode_block(bytes_view from, const decode_target& to);
/// Appends a raw block to `to` and returns true. Appends nothing and returns false if the
/// block would not be smaller than `from`.
[[nodiscard]] bool lz4_append_block(bytes_view from, byte_vector& to);

}  // namespace weir::formats
