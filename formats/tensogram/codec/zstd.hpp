// SPDX-License-Identifier: Apache-2.0
/// @file
/// Compression "zstd": one or more zstd frames, with or without their content size.
#pragma once

#include "tensogram/codec/buffer.hpp"
#include "weir/formats/cbor.hpp"

namespace weir::formats {

/// No zstd frame decodes to more than this many bytes per stored byte: a run of 128 KiB
/// takes four bytes.
inline constexpr std::uint64_t zstd_largest_ratio = 32768;

/// Returns the level of the parameter `zstd_level`, clamped to the library's range; the
/// library's default if it is absent. @error{unknown_key, not an integer}
[[nodiscard]] result<int> zstd_level(const cbor_map& parameters);
/// Compresses `from` to one frame. @error{internal; out_of_memory}
[[nodiscard]] result<code_buffer> zstd_encode(bytes_view from, int level);
/// Decompresses to exactly `to.size()` bytes. @error{corrupt, damage, another size, or
/// bytes after the last frame}
[[nodiscard]] result<void> zstd_decode(bytes_view from, const decode_target& to);

}  // namespace weir::formats
