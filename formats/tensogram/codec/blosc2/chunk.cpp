// SPDX-License-Identifier: Apache-2.0
/// @file
/// Chunks of Blosc2: streams of blocks, and the filters before them undone.
#include <blosc.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "tensogram/codec/blosc2/blosc2.hpp"
#include "tensogram/codec/lz4.hpp"
#include "tensogram/codec/shuffle.hpp"
#include "tensogram/codec/zstd.hpp"

namespace weir::formats {

namespace {

error damaged_chunk(std::string_view what) {
  return error(errc::corrupt,
               fmt::format("cannot decompress payload: expected a chunk of blosc2, found "
                           "{}",
                           what));
}

unsigned byte_at(bytes_view bytes, std::size_t i) noexcept {
  return std::to_integer<unsigned>(bytes[i]);
}

/// The library knows this codec inside a chunk of its first version only.
result<void> decode_blosclz(bytes_view from, mutable_bytes to) {
  constexpr std::size_t head = 24;
  WEIR_TRY(code_buffer framed, make_buffer(head + from.size()));
  std::byte* out = framed.storage.get();
  const auto size = static_cast<std::uint32_t>(to.size());
  const std::array<std::uint8_t, 4> start{2, 1, 0x10, 1};
  std::memcpy(out, start.data(), start.size());
  store_le<std::uint32_t>(out + 4, size);
  store_le<std::uint32_t>(out + 8, size);
  store_le<std::uint32_t>(out + 12, static_cast<std::uint32_t>(framed.bytes.size()));
  store_le<std::uint32_t>(out + 16, 20);
  store_le<std::uint32_t>(out + 20, static_cast<std::uint32_t>(from.size()));
  std::copy(from.begin(), from.end(), out + head);
  if (blosc_decompress_ctx(out, to.data(), to.size(), 1) != static_cast<int>(to.size())) {
    return damaged_chunk("a damaged blosclz stream");
  }
  return {};
}

result<void> decode_zlib(bytes_view from, mutable_bytes to) {
  uLongf size = to.size();
  const int code = uncompress(reinterpret_cast<Bytef*>(to.data()), &size,
                              reinterpret_cast<const Bytef*>(from.data()), from.size());
  if (code != Z_OK || size != to.size()) {
    return damaged_chunk("a damaged zlib stream");
  }
  return {};
}

result<void> decode_stream(unsigned codec, bytes_view from, mutable_bytes to) {
  switch (static_cast<blosc2_codec>(codec)) {
    case blosc2_codec::blosclz: return decode_blosclz(from, to);
    case blosc2_codec::lz4: return lz4_decode_block(from, to);
    case blosc2_codec::zlib: return decode_zlib(from, to);
    case blosc2_codec::zstd: return zstd_decode(from, to);
  }
  return error(errc::unsupported,
               fmt::format("cannot decompress payload: expected a codec of blosc2 that "
                           "is built (blosclz, lz4, lz4hc, zlib, zstd), found number {}",
                           codec));
}

/// Streams of one block, before the filters are undone.
class block_reader {
 public:
  block_reader(const blosc2_chunk& chunk, std::size_t at) : chunk_(chunk), at_(at) {}

  result<void> read(mutable_bytes to, bool last_and_short) {
    const bool whole = (chunk_.flags & blosc2_flag::whole_blocks) != 0 || last_and_short;
    const std::size_t streams = whole ? 1 : chunk_.type_size;
    if (to.size() % streams != 0) {
      return damaged_chunk("blocks that do not divide into streams");
    }
    const std::size_t size = to.size() / streams;
    for (std::size_t s = 0; s < streams; ++s) {
      WEIR_CHECK(read_stream(to.subspan(s * size, size)));
    }
    return {};
  }

 private:
  result<bytes_view> take(std::size_t count) {
    if (at_ > chunk_.bytes.size() || count > chunk_.bytes.size() - at_) {
      return damaged_chunk("streams beyond its end");
    }
    const bytes_view out = chunk_.bytes.subspan(at_, count);
    at_ += count;
    return out;
  }
  result<void> read_stream(mutable_bytes to) {
    WEIR_TRY(const bytes_view head, take(4));
    const auto size = static_cast<std::int32_t>(load_le<std::uint32_t>(head.data()));
    if (size <= 0) {
      // A run of one byte; a marker follows unless it is zero.
      std::fill(
          to.begin(), to.end(),
          static_cast<std::byte>(static_cast<std::uint32_t>(-std::int64_t{size}) & 0xFF));
      if (size < 0) {
        WEIR_CHECK(take(1));
      }
      return {};
    }
    WEIR_TRY(const bytes_view body, take(static_cast<std::size_t>(size)));
    if (body.size() == to.size()) {
      std::copy(body.begin(), body.end(), to.begin());
      return {};
    }
    return decode_stream(chunk_.flags >> 5, body, to);
  }

  const blosc2_chunk& chunk_;
  std::size_t at_;
};

result<void> undo_filter(const blosc2_chunk& chunk, std::size_t slot, byte_vector& block,
                         byte_vector& scratch) {
  constexpr unsigned shuffle = 1;
  constexpr unsigned bit_shuffle = 2;
  constexpr unsigned truncate = 4;
  const unsigned filter = chunk.filters[slot];
  if (filter == 0 || filter == truncate) {
    return {};
  }
  if (filter != shuffle && filter != bit_shuffle) {
    return error(
        errc::unsupported,
        fmt::format("cannot decompress payload: expected a filter of blosc2 that "
                    "is built (shuffle, bitshuffle), found number {}",
                    filter));
  }
  const std::size_t size =
      chunk.filter_meta[slot] == 0 ? chunk.type_size : chunk.filter_meta[slot];
  scratch.resize(block.size());
  if (filter == shuffle) {
    unshuffle_bytes(block, size, scratch);
  } else if (chunk.version <= 2 && block.size() / size % 8 != 0) {
    return {};  // such a block was left as it is
  } else {
    unshuffle_bits(block, size, scratch);
  }
  block.swap(scratch);
  return {};
}

result<void> decode_blocks(const blosc2_chunk& chunk, std::uint64_t first,
                           mutable_bytes to) {
  if (chunk.block == 0 || chunk.block > chunk.size) {
    return damaged_chunk("blocks of an impossible size");
  }
  const std::uint64_t blocks = (chunk.size + chunk.block - 1) / chunk.block;
  if ((chunk.bytes.size() - blosc2_chunk_header) / 4 < blocks) {
    return damaged_chunk("fewer blocks than announced");
  }
  byte_vector block;
  byte_vector scratch;
  const std::uint64_t end = first + to.size();
  for (std::uint64_t b = first / chunk.block; b < blocks && b * chunk.block < end; ++b) {
    const std::uint64_t begin = b * chunk.block;
    const std::uint64_t size = std::min<std::uint64_t>(chunk.block, chunk.size - begin);
    const auto start =
        load_le<std::uint32_t>(chunk.bytes.data() + blosc2_chunk_header + 4 * b);
    block.resize(size);
    WEIR_CHECK(block_reader(chunk, start).read(block, size < chunk.block));
    for (std::size_t slot = chunk.filters.size(); slot-- > 0;) {
      WEIR_CHECK(undo_filter(chunk, slot, block, scratch));
    }
    const std::uint64_t from = std::max(begin, first);
    const std::uint64_t until = std::min(begin + size, end);
    std::memcpy(to.data() + (from - first), block.data() + (from - begin), until - from);
  }
  return {};
}

}  // namespace

result<void> fill_blosc2_special(unsigned special, unsigned type_size, bytes_view value,
                                 std::uint64_t first, mutable_bytes to) {
  std::array<std::byte, 8> nan{};
  switch (special) {
    case 1:
    case 4: std::fill(to.begin(), to.end(), std::byte{}); return {};
    case 2:
      if (type_size == 4) {
        store_le<std::uint32_t>(nan.data(), 0x7FC0'0000);
      } else if (type_size == 8) {
        store_le<std::uint64_t>(nan.data(), 0x7FF8'0000'0000'0000);
      } else {
        return damaged_chunk("a chunk of NaN that are neither 4 nor 8 bytes wide");
      }
      value = bytes_view(nan).first(type_size);
      break;
    case 3: break;
    default: return damaged_chunk("a special chunk of an unknown kind");
  }
  if (value.empty()) {
    return damaged_chunk("a repeated value without the value");
  }
  for (std::size_t i = 0; i < to.size(); ++i) {
    to[i] = value[(first + i) % value.size()];
  }
  return {};
}

result<blosc2_chunk> read_blosc2_chunk(bytes_view from) {
  if (from.size() < blosc2_chunk_header) {
    return damaged_chunk("fewer bytes than its header has");
  }
  blosc2_chunk out;
  out.version = byte_at(from, 0);
  out.flags = byte_at(from, 2);
  out.type_size = std::max(1u, byte_at(from, 3));
  out.size = load_le<std::uint32_t>(from.data() + 4);
  out.block = load_le<std::uint32_t>(from.data() + 8);
  const auto stored = load_le<std::uint32_t>(from.data() + 12);
  for (std::size_t i = 0; i < out.filters.size(); ++i) {
    out.filters[i] = byte_at(from, 16 + i);
    out.filter_meta[i] = byte_at(from, 24 + i);
  }
  const unsigned more = byte_at(from, 31);
  out.special = more >> 4 & 7u;
  if ((out.flags & blosc2_flag::extended) != blosc2_flag::extended || (more & 1u) != 0) {
    return error(errc::unsupported,
                 "cannot decompress payload: expected chunks of blosc2 with their long "
                 "header and without a dictionary, found others");
  }
  if (stored < blosc2_chunk_header || stored > from.size() || out.size > 0x7FFF'FFFF) {
    return damaged_chunk("impossible sizes");
  }
  out.bytes = from.first(stored);
  return out;
}

result<void> decode_blosc2_chunk(const blosc2_chunk& chunk, std::uint64_t first,
                                 mutable_bytes to) {
  if (to.empty()) {
    return {};
  }
  if (first > chunk.size || to.size() > chunk.size - first) {
    return damaged_chunk("fewer bytes than asked for");
  }
  const bytes_view body = chunk.bytes.subspan(blosc2_chunk_header);
  if (chunk.special != 0) {
    const bytes_view value =
        body.first(std::min<std::size_t>(body.size(), chunk.type_size));
    return fill_blosc2_special(chunk.special, chunk.type_size, value, first, to);
  }
  if ((chunk.flags & blosc2_flag::plain) != 0) {
    if (body.size() < chunk.size) {
      return damaged_chunk("fewer bytes than it holds uncompressed");
    }
    std::memcpy(to.data(), body.data() + first, to.size());
    return {};
  }
  return decode_blocks(chunk, first, to);
}

}  // namespace weir::formats
