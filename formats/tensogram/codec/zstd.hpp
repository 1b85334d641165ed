// SPDX-License-Identifier: Apache-2.0
/// @file
/// Compression "zstd": one or more zstd frames, with or without their content size.
#pragma once

#include "tensogram/codec/buffer.hpp"
#include "weir/formats/cbor.hpp"

namespace weir::formats {

/// No zstd frame decodes to more than this many bytes per stored byte: a run of 128 KiB
/// takes four.
inline constexpr std::uint64_t zstd_largest_ratio = 32768;

/// Level of the parameter `zstd_level`, 3 if absent, clamped to what the library has.
/// @error{invalid_argument, not an integer}
[[nodiscard]] result<int> zstd_level(const cbor_map& parameters);
/// @error{internal; out_of_memory}
[[nodiscard]] result<code_buffer> zstd_encode(bytes_view from, int level);
/// Fills `to` exactly. @error{corrupt, damage, another size, or bytes after the last
/// frame}
[[nodiscard]] result<void> zstd_decode(bytes_view from, const decode_target& to);

}  // namespace weir::formats
