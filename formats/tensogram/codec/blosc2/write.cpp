// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes frames that every reader of Blosc2 opens: chunks with one stream per block and
/// the shuffle filter. If compression does not pay for a chunk, the chunk is stored
/// plain.
///
/// The frame is made in one vector. Its sizes are filled in at the end, because they
/// depend on how well the chunks compress. `frame.cpp` and `chunk.cpp` read such frames,
/// and many others that this writer does not make.
#include <zstd.h>

#include <algorithm>
#include <limits>
#include <string>

#include "tensogram/codec/blosc2/blosc2.hpp"
#include "tensogram/codec/lz4.hpp"
#include "tensogram/codec/parameters.hpp"
#include "tensogram/codec/shuffle.hpp"
#include "weir/base/record.hpp"

namespace weir::formats {

namespace {

/// Largest decoded chunk in bytes; a chunk's sizes are 32-bit numbers.
constexpr std::size_t largest_chunk = std::size_t{256} << 20;
/// Decoded size of a block in bytes; fits in a second-level cache.
constexpr std::size_t usual_block = std::size_t{128} << 10;
/// Returns the number of a codec in a frame's header. That numbering has lz4hc as a codec
/// of its own, the numbering of chunks does not.
unsigned frame_number(blosc2_codec codec) noexcept {
  return codec == blosc2_codec::zstd ? 5 : 1;
}

/// Appends a msgpack marker and a big-endian value.
template <class T>
void put_be(byte_vector& to, int marker, T value) {
  to.push_back(static_cast<std::byte>(marker));
  to.resize(to.size() + sizeof(T));
  store_be(to.data() + to.size() - sizeof(T), value);
}
/// Appends single bytes.
void put_bytes(byte_vector& to, std::initializer_list<unsigned> bytes) {
  for (const unsigned b : bytes) {
    to.push_back(static_cast<std::byte>(b));
  }
}

/// Fields of a chunk's header that differ between chunks.
struct chunk_head {
  unsigned flags = 0;        ///< how the blocks are stored; see `blosc2_flag`
  unsigned type_size = 1;    ///< bytes of an item
  std::uint32_t size = 0;    ///< decoded bytes
  std::uint32_t block = 0;   ///< decoded bytes of a block
  std::uint32_t stored = 0;  ///< bytes of the chunk with its header
  unsigned codec = 0;        ///< number of the codec, as in the header of a frame
};

/// Appends the header of a chunk of format version 5 with one filter, shuffle.
void put_head(byte_vector& to, const chunk_head& h) {
  put_bytes(to, {5, 1, blosc2_flag::extended | h.flags, h.type_size});
  record_writer sizes;
  sizes.put(h.size);
  sizes.put(h.block);
  sizes.put(h.stored);
  append(to, sizes.view());
  // The filter stands in the last of six slots; the codec follows the slots, then the
  // parameters of the filters, which are 0.
  put_bytes(to, {0, 0, 0, 0, 0, 1, h.codec, 0, 0, 0, 0, 0, 0, 0, 0, 0});
}

/// Appends a zstd stream, or nothing if it would not be smaller than `from`. Levels 1 to
/// 9 are mapped to those of zstd as the Blosc library maps them.
bool append_zstd(bytes_view from, int level, byte_vector& to) {
  const std::size_t before = to.size();
  to.resize(before + from.size());
  const int zstd = level >= 9 ? ZSTD_maxCLevel() : 2 * level - 1;
  const std::size_t size =
      ZSTD_compress(to.data() + before, from.size(), from.data(), from.size(), zstd);
  const bool smaller = ZSTD_isError(size) == 0 && size < from.size();
  to.resize(smaller ? before + size : before);
  return smaller;
}

/// Appends a shuffled block as one stream: its size, then the compressed bytes, or the
/// plain ones if they are not larger.
void put_block(bytes_view block, const blosc2_parameters& p, byte_vector& to) {
  byte_vector shuffled(block.size());
  shuffle_bytes(block, p.type_size, shuffled);
  const std::size_t head = to.size();
  to.resize(head + 4);  // for the size
  const bool smaller = p.codec == blosc2_codec::zstd ? append_zstd(shuffled, p.level, to)
                                                     : lz4_append_block(shuffled, to);
  if (!smaller) {
    append(to, shuffled);
  }
  store_le(to.data() + head, static_cast<std::uint32_t>(to.size() - head - 4));
}

/// Appends a chunk that holds its bytes uncompressed.
void put_plain(bytes_view from, unsigned type_size, unsigned codec, byte_vector& to) {
  const auto size = static_cast<std::uint32_t>(from.size());
  put_head(to, {blosc2_flag::plain, type_size, size, size,
                static_cast<std::uint32_t>(blosc2_chunk_header + from.size()), codec});
  append(to, from);
}

/// Appends a chunk: header, offsets of the blocks, blocks. Falls back to a plain chunk if
/// the compressed one is not smaller.
void put_chunk(bytes_view from, const blosc2_parameters& p, byte_vector& to) {
  const std::size_t start = to.size();
  // A block holds whole items, because the shuffle filter does not work across blocks.
  const std::size_t block = std::min(
      from.size(), std::max<std::size_t>(usual_block / p.type_size, 1) * p.type_size);
  const std::size_t blocks = (from.size() + block - 1) / block;
  const auto codec = static_cast<unsigned>(p.codec);
  if (p.level > 0) {
    put_head(to, {blosc2_flag::whole_blocks | codec << 5, p.type_size,
                  static_cast<std::uint32_t>(from.size()),
                  static_cast<std::uint32_t>(block), 0, frame_number(p.codec)});
    const std::size_t starts = to.size();
    to.resize(starts + 4 * blocks);
    for (std::size_t b = 0; b < blocks; ++b) {
      store_le(to.data() + starts + 4 * b, static_cast<std::uint32_t>(to.size() - start));
      put_block(from.subspan(b * block, std::min(block, from.size() - b * block)), p, to);
    }
    // The compressed chunk is kept if it is smaller than the plain one would be.
    if (to.size() - start < blosc2_chunk_header + from.size()) {
      store_le(to.data() + start + 12, static_cast<std::uint32_t>(to.size() - start));
      return;
    }
    to.resize(start);
  }
  put_plain(from, p.type_size, frame_number(p.codec), to);
}

/// Appends the header of a frame: msgpack markers and big-endian numbers at fixed
/// offsets. The number of compressed bytes and the size of the frame follow later.
/// `chunk` is the decoded size of every chunk but the last. Codes such as 0xd2 and 0xcf
/// are markers of msgpack: a number of 4 bytes with a sign, one of 8 bytes without.
void put_frame_head(byte_vector& to, std::size_t size, std::size_t chunk,
                    const blosc2_parameters& p) {
  put_bytes(to, {0x9e, 0xa8});
  append(to, as_view("b2frame"));
  put_bytes(to, {0});
  put_be<std::uint32_t>(to, 0xd2, 97);
  put_be<std::uint64_t>(to, 0xcf, 0);  // sizes are filled in by blosc2_encode()
  const unsigned codec = frame_number(p.codec);
  put_bytes(to, {0xa4, 0x12, 0x00, static_cast<unsigned>(p.level) << 4 | codec, 0x03});
  put_be<std::uint64_t>(to, 0xd3, size);
  put_be<std::uint64_t>(to, 0xd3, 0);
  put_be<std::uint32_t>(to, 0xd2, p.type_size);
  const std::size_t block =
      std::max<std::size_t>(usual_block / p.type_size, 1) * p.type_size;
  put_be<std::uint32_t>(to, 0xd2, static_cast<std::uint32_t>(std::min(block, chunk)));
  put_be<std::uint32_t>(to, 0xd2, static_cast<std::uint32_t>(chunk));
  put_be<std::uint16_t>(to, 0xd1, 1);
  put_be<std::uint16_t>(to, 0xd1, 1);
  put_bytes(to, {0xc2, 0xd8, 6, 0, 0, 0, 0, 0, 1, codec, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  put_bytes(to, {0x93, 0xcd, 0, 7, 0xde, 0, 0, 0xdc, 0, 0});
}

}  // namespace

/// Codecs that are only read are refused with `unsupported` and not as a wrong parameter,
/// since the format allows them.
result<blosc2_parameters> read_blosc2(const cbor_map& parameters, unsigned type_size) {
  constexpr errc kind = errc::invalid_argument;
  WEIR_TRY(const std::string codec,
           text_parameter(parameters, "blosc2_codec", kind, "lz4"));
  constexpr std::string_view level_key = "blosc2_clevel";
  using any = std::numeric_limits<std::int32_t>;
  WEIR_TRY(const std::int64_t level,
           integer_parameter(parameters, level_key, any::min(), any::max(), kind, 5));
  if (level < 0 || level > 9) {
    return bad_parameter(kind, level_key, "an integer from 0 to 9",
                         std::to_string(level));
  }
  blosc2_parameters out;
  out.level = static_cast<int>(level);
  out.type_size = type_size;
  if (codec == "zstd") {
    out.codec = blosc2_codec::zstd;
  } else if (codec == "blosclz" || codec == "lz4hc" || codec == "zlib") {
    return error(
        errc::unsupported,
        fmt::format("cannot write blosc2: expected a codec that is written (lz4, "
                    "zstd), found \"{}\", which is only read",
                    codec));
  } else if (codec != "lz4") {
    return bad_parameter(kind, "blosc2_codec", "blosclz, lz4, lz4hc, zlib or zstd",
                         codec);
  }
  return out;
}

/// Writes header, chunks, list of offsets and trailer. The sizes at 0x10 and 0x27 of the
/// header are known only at the end and are filled in then.
result<code_buffer> blosc2_encode(bytes_view from, const blosc2_parameters& p) {
  const std::size_t max_chunk = align_down<std::size_t>(largest_chunk, p.type_size);
  const std::size_t chunk = std::min(from.size(), max_chunk);
  byte_vector out;
  try {
    out.reserve(from.size() + from.size() / 64 + 1024);
    put_frame_head(out, from.size(), chunk, p);
    const std::size_t header = out.size();
    record_writer offsets;
    for (std::size_t offset = 0; offset < from.size(); offset += chunk) {
      offsets.put<std::uint64_t>(out.size() - header);
      // Offsets count from the end of the header.
      put_chunk(from.subspan(offset, std::min(chunk, from.size() - offset)), p, out);
    }
    store_be<std::uint64_t>(out.data() + 0x27, out.size() - header);
    // The list of offsets is a chunk of items of 8 bytes.
    put_plain(offsets.view(), 8, 0, out);
    // The trailer is a msgpack array of four elements: its version, no metadata of
    // variable length, its own size (35 bytes), and a fingerprint of zeros, which means
    // that there is none.
    put_bytes(out, {0x94, 0x01, 0x93, 0xcd, 0, 6, 0xde, 0, 0, 0xdc, 0, 0});
    put_be<std::uint32_t>(out, 0xce, 35);
    put_bytes(out, {0xd8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
    store_be<std::uint64_t>(out.data() + 0x10, out.size());
  } catch (const std::bad_alloc&) {
    return error(errc::out_of_memory,
                 "cannot write blosc2: expected enough memory, found too little");
  }
  WEIR_TRY(code_buffer done, make_buffer(out.size()));
  std::copy(out.begin(), out.end(), done.storage.get());
  return done;
}

}  // namespace weir::formats
