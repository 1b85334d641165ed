// SPDX-License-Identifier: Apache-2.0
/// @file
/// Compression "blosc2": a reader of contiguous frames and a writer of simple ones.
///
/// A frame holds chunks, and a chunk holds blocks. Filters (shuffle and others) are
/// applied to a block, whose result is one compressed stream, or one stream per byte of
/// an item. The reader decodes single blocks, so ranges of an object can be read. The
/// Blosc library of Debian, which knows only the first version, decodes blosclz streams.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "tensogram/codec/buffer.hpp"
#include "weir/formats/cbor.hpp"

namespace weir::formats {

/// Codecs, with the numbers that chunks use for them.
enum class blosc2_codec : std::uint8_t { blosclz = 0, lz4 = 1, zlib = 3, zstd = 4 };

/// Parameters of the writer.
struct blosc2_parameters {
  blosc2_codec codec = blosc2_codec::lz4;  ///< codec of the streams
  int level = 5;                           ///< 0 stores chunks plain, 9 is the slowest
  unsigned type_size = 1;  ///< bytes of an item for the shuffle filter, 1..255
};

/// Reads the parameters of a writer from `blosc2_codec` and `blosc2_clevel`.
/// @error{invalid_argument; unsupported, a codec that is only read}
[[nodiscard]] result<blosc2_parameters> read_blosc2(const cbor_map& parameters,
                                                    unsigned type_size);

/// Encodes `from` as a frame with shuffled bytes and one stream per block. @pre the type
/// size divides `from.size()`
/// @error{out_of_memory; internal}
[[nodiscard]] result<code_buffer> blosc2_encode(bytes_view from,
                                                const blosc2_parameters& p);
/// Decodes bytes `[first, first + to.size())` of a frame that holds `total` bytes.
/// @error{corrupt; unsupported, a filter or codec that is not built, which the text
/// names; out_of_memory}
[[nodiscard]] result<void> blosc2_decode(bytes_view from, std::uint64_t total,
                                         std::uint64_t first, const decode_target& to);

/// A chunk: header, offsets of its blocks, blocks.
struct blosc2_chunk {
  bytes_view bytes;         ///< with the header
  std::uint64_t size = 0;   ///< bytes that it decodes to
  std::uint32_t block = 0;  ///< decoded bytes of a block
  unsigned type_size = 1;   ///< bytes of an item
  unsigned flags = 0;       ///< `blosc2_flag`, and the codec in the upper three bits
  unsigned special = 0;     ///< 1 zeros, 2 NaN, 3 one value repeated, 4 anything
  std::array<unsigned, 6>
      filters{};  ///< numbers, in the order in which they were applied
  std::array<unsigned, 6> filter_meta{};  ///< parameter of each filter
  unsigned version = 0;                   ///< of the chunk format
};
/// Reads the header of a chunk and checks its sizes.
/// @error{corrupt; unsupported}
[[nodiscard]] result<blosc2_chunk> read_blosc2_chunk(bytes_view from);
/// Decodes bytes `[first, first + to.size())` of a chunk. @error{corrupt; unsupported;
/// out_of_memory}
[[nodiscard]] result<void> decode_blosc2_chunk(const blosc2_chunk& chunk,
                                               std::uint64_t first,
                                               const decode_target& to);
/// Fills `to` with the value for which the special chunk kind `special` stands. `first`
/// is the position of `to` in the chunk, so that a repeated value starts with the right
/// byte.
/// @error{corrupt; unsupported}
[[nodiscard]] result<void> fill_blosc2_special(unsigned special, unsigned type_size,
                                               bytes_view value, std::uint64_t first,
                                               const decode_target& to);

inline constexpr std::size_t blosc2_chunk_header = 32;  ///< size of the header of a chunk
/// Bits of a chunk's flags: both bits of `extended` mark the long header, `plain` means
/// uncompressed, and `whole_blocks` means one stream per block instead of one per byte of
/// an item.
namespace blosc2_flag {
inline constexpr unsigned extended = 0x05;
inline constexpr unsigned plain = 0x02;
inline constexpr unsigned whole_blocks = 0x10;
}  // namespace blosc2_flag

}  // namespace weir::formats
