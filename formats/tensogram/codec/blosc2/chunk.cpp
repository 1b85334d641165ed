// SPDX-License-Identifier: Apache-2.0
/// @file
/// Chunks of Blosc2: decodes the streams of blocks and reverses their filters.
///
/// chunk    32 bytes of header, 4 bytes of offset for each block, blocks
/// block    one or several streams
/// stream   4 bytes of size, then that many bytes
///
/// A chunk can also be stored plain, or be special: one value repeated, without blocks.
/// Every offset and size is compared with the bytes of the chunk before it is used, and
/// memory is taken for one block at a time (two more if filters need them). `write.cpp`
/// writes chunks of the simplest kind.
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

/// Returns the error for a damaged chunk; `text` says what was found.
error damaged_chunk(std::string_view text) {
  return error(errc::corrupt,
               fmt::format("cannot decompress payload: expected a chunk of blosc2, found "
                           "{}",
                           text));
}

/// Returns byte `i` as a number.
unsigned byte_at(bytes_view bytes, std::size_t i) noexcept {
  return std::to_integer<unsigned>(bytes[i]);
}

/// No blosclz stream decodes to more than this many bytes per stored byte, because one
/// byte of a long match stands for at most 255.
constexpr std::uint64_t blosclz_largest_ratio = 256;

/// Decodes a blosclz stream. Debian's library offers this codec only for whole chunks of
/// its first version, so the stream gets the 16-byte header of such a chunk, the offset
/// of its one block and the size of its one stream.
result<void> decode_blosclz(bytes_view from, const decode_target& to) {
  // The header of the first version has 16 bytes: version 2, version of the codec, flags,
  // size of an item, then decoded size, block size and stored size. The offset of the
  // block and the size of its stream follow.
  constexpr std::size_t head = 24;
  if (to.size() / blosclz_largest_ratio > from.size()) {
    return damaged_chunk("a blosclz stream too short for its block");
  }
  if (!to.has_memory()) {
    return {};  // the library cannot decode a part of a stream
  }
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
  const int done = blosc_decompress_ctx(out, to.bytes().data(), to.size(), 1);
  return done >= 0 && static_cast<std::uint64_t>(done) == to.size()
             ? result<void>()
             : result<void>(damaged_chunk("a damaged blosclz stream"));
}

/// Decodes a zlib stream. Without memory for the result, only beginnings of the stream
/// are decoded; then Z_BUF_ERROR, "the output is full", is the good outcome.
result<void> decode_zlib(bytes_view from, const decode_target& to) {
  // `good` is the code that the library returns if the output is full or the stream ends.
  const auto decode = [&](mutable_bytes out, int good) -> result<void> {
    uLongf size = out.size();
    const int code = uncompress(reinterpret_cast<Bytef*>(out.data()), &size,
                                reinterpret_cast<const Bytef*>(from.data()), from.size());
    return code == good && size == out.size()
               ? result<void>()
               : result<void>(damaged_chunk("a damaged zlib stream"));
  };
  if (to.has_memory()) {
    return decode(to.bytes(), Z_OK);
  }
  return show_beginnings(to.size(),
                         [&](mutable_bytes out) { return decode(out, Z_BUF_ERROR); });
}

/// Decodes a stream with the codec that the flags of its chunk name.
result<void> decode_stream(unsigned codec, bytes_view from, const decode_target& to) {
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

/// Reads the streams of one block. Filters are still applied to the result.
/// The streams lie one after the other from the offset of the block on.
class block_reader {
 public:
  block_reader(const blosc2_chunk& chunk, std::size_t offset)
      : chunk_(chunk), offset_(offset) {}

  /// Reads all streams of the block. The last block of a chunk, if it is shorter than the
  /// others, always has a single stream.
  result<void> read(const decode_target& to, bool last_and_short) {
    // A block of several streams has one for each byte of an item, because the codecs
    // compress bytes of equal significance better.
    const bool whole = (chunk_.flags & blosc2_flag::whole_blocks) != 0 || last_and_short;
    const std::size_t streams = whole ? 1 : chunk_.type_size;
    if (to.size() % streams != 0) {
      return damaged_chunk("blocks that do not divide into streams");
    }
    const std::uint64_t size = to.size() / streams;
    for (std::size_t s = 0; s < streams; ++s) {
      WEIR_CHECK(read_stream(to.part(s * size, size)));
    }
    return {};
  }

 private:
  /// Returns the next `count` bytes of the chunk, if it has them.
  result<bytes_view> take(std::size_t count) {
    if (offset_ > chunk_.bytes.size() || count > chunk_.bytes.size() - offset_) {
      return damaged_chunk("streams beyond its end");
    }
    // `offset_` is where the next bytes begin.
    const bytes_view out = chunk_.bytes.subspan(offset_, count);
    offset_ += count;
    return out;
  }
  /// Reads one stream: a 32-bit size and that many bytes. A size of zero or less is a run
  /// of one byte; a stream as long as its result is stored without compression.
  result<void> read_stream(const decode_target& to) {
    WEIR_TRY(const bytes_view head, take(4));
    const auto size = static_cast<std::int32_t>(load_le<std::uint32_t>(head.data()));
    const mutable_bytes out = to.bytes();
    if (size <= 0) {
      // The value of the byte is minus the size. A marker byte follows unless it is zero.
      std::fill(
          out.begin(), out.end(),
          static_cast<std::byte>(static_cast<std::uint32_t>(-std::int64_t{size}) & 0xFF));
      if (size < 0) {
        WEIR_CHECK(take(1));
      }
      return {};
    }
    WEIR_TRY(const bytes_view body, take(static_cast<std::size_t>(size)));
    if (body.size() == to.size()) {
      std::copy_n(body.begin(), out.size(), out.begin());
      return {};
    }
    // The codec is the upper three bits of the flags.
    return decode_stream(chunk_.flags >> 5, body, to);
  }

  const blosc2_chunk& chunk_;
  std::size_t offset_;
};

/// Filters of Blosc2, with their numbers.
enum blosc2_filter : unsigned {
  no_filter = 0,
  shuffle = 1,
  bit_shuffle = 2,
  delta = 3,
  truncate = 4  ///< loses bits when written; there is nothing to reverse
};

/// Returns the width of the numbers that the delta filter combines.
std::size_t delta_width(unsigned type_size) noexcept {
  const bool number = type_size == 1 || type_size == 2 || type_size == 4;
  return number ? type_size : (type_size % 8 == 0 ? 8 : 1);
}

/// Decodes the blocks of one chunk, one after the other, into the same memory.
/// A caller that reads a range asks for the blocks of the range only.
class block_decoder {
 public:
  explicit block_decoder(const blosc2_chunk& chunk)
      : chunk_(chunk),
        uses_delta_(std::find(chunk.filters.begin(), chunk.filters.end(), delta) !=
                    chunk.filters.end()) {}

  /// Checks the header of the chunk before any block is decoded. @error{corrupt;
  /// unsupported}
  /// A block is at most as large as its chunk, so the memory of a block is bounded by the
  /// size that the object has.
  result<void> check() const {
    if (chunk_.block == 0 || chunk_.block > chunk_.size) {
      return damaged_chunk("blocks of an impossible size");
    }
    if ((chunk_.bytes.size() - blosc2_chunk_header) / 4 < blocks()) {
      return damaged_chunk("fewer blocks than announced");
    }
    for (const unsigned filter : chunk_.filters) {
      if (filter > truncate) {
        return error(
            errc::unsupported,
            fmt::format("cannot decompress payload: expected a filter of blosc2 that is "
                        "built (shuffle, bitshuffle, delta, truncation), found number {}",
                        filter));
      }
    }
    return {};
  }

  // Returns the number of blocks; the last one may be shorter.
  [[nodiscard]] std::uint64_t blocks() const noexcept {
    return (std::uint64_t{chunk_.size} + chunk_.block - 1) / chunk_.block;
  }

  /// Decodes block `b`. The returned bytes are valid until the next call. The delta
  /// filter refers to the first block, which is decoded and kept when it is first needed.
  result<bytes_view> decode(std::uint64_t b) {
    if (uses_delta_ && b > 0 && first_.bytes.empty()) {
      WEIR_CHECK(decode(0));
    }
    const std::uint64_t begin = b * chunk_.block;
    const auto size = static_cast<std::size_t>(
        std::min<std::uint64_t>(chunk_.block, chunk_.size - begin));
    const bool is_short = size < chunk_.block;
    // The offsets of the blocks stand behind the header; `check` has counted them.
    const auto start =
        load_le<std::uint32_t>(chunk_.bytes.data() + blosc2_chunk_header + 4 * b);
    if (must_be_shown(size, chunk_.bytes.size())) {
      WEIR_CHECK(
          block_reader(chunk_, start).read(decode_target::nowhere(size), is_short));
    }
    WEIR_CHECK(take_memory(block_));
    block_.bytes = {block_.storage.get(), size};
    WEIR_CHECK(block_reader(chunk_, start).read(block_.writable(), is_short));
    // Filters were applied in the order of their slots, so they are reversed from the
    // end.
    for (std::size_t slot = chunk_.filters.size(); slot-- > 0;) {
      WEIR_CHECK(undo_filter(slot, b));
    }
    if (uses_delta_ && b == 0) {
      // The first block is kept as it was before its filters were applied, that is,
      // decoded.
      WEIR_TRY(first_, make_buffer(size));
      std::copy(block_.bytes.begin(), block_.bytes.end(), first_.storage.get());
    }
    return block_.bytes;
  }

 private:
  /// Allocates memory for one block unless `buffer` has it already.
  result<void> take_memory(code_buffer& buffer) const {
    if (buffer.storage == nullptr) {
      WEIR_TRY(buffer, make_buffer(chunk_.block));
    }
    return {};
  }

  /// Reverses the filter in a slot. A filter that needs a second buffer swaps the two.
  result<void> undo_filter(std::size_t slot, std::uint64_t b) {
    const unsigned filter = chunk_.filters[slot];
    if (filter == delta) {
      undo_delta(b);
    }
    if (filter != shuffle && filter != bit_shuffle) {
      return {};
    }
    const std::size_t size =
        // The parameter of a shuffle filter is the size of an item; 0 means that of the
        // chunk.
        chunk_.filter_meta[slot] == 0 ? chunk_.type_size : chunk_.filter_meta[slot];
    // Before version 3, bitshuffle left blocks alone whose items it could not group by 8.
    const bool left_alone = filter == bit_shuffle && chunk_.version <= 2 &&
                            block_.bytes.size() / size % 8 != 0;
    if (left_alone) {
      return {};
    }
    WEIR_CHECK(take_memory(scratch_));
    scratch_.bytes = {scratch_.storage.get(), block_.bytes.size()};
    filter == shuffle ? unshuffle_bytes(block_.bytes, size, scratch_.writable())
                      : unshuffle_bits(block_.bytes, size, scratch_.writable());
    std::swap(block_, scratch_);
    return {};
  }

  /// Reverses the delta filter. In the first block each number was combined by xor with
  /// the number before it, in other blocks with the number at the same position of the
  /// first block as it was before all filters.
  void undo_delta(std::uint64_t b) noexcept {
    const std::size_t width = delta_width(chunk_.type_size);
    const std::size_t count = block_.bytes.size() / width * width;
    std::byte* out = block_.storage.get();
    // In the first block, the first number has none before it and stays.
    for (std::size_t i = b == 0 ? width : 0; i < count; ++i) {
      out[i] ^= b == 0 ? out[i - width] : first_.storage[i];
    }
  }

  const blosc2_chunk& chunk_;
  bool uses_delta_;
  code_buffer block_;
  code_buffer scratch_;
  code_buffer first_;  ///< the first block, if the others refer to it
};

/// Decodes the blocks that overlap a range and copies their parts of it.
/// A range that begins inside a block takes only the part of the block behind `first`.
result<void> decode_blocks(const blosc2_chunk& chunk, std::uint64_t first,
                           const decode_target& to) {
  block_decoder decoder(chunk);
  WEIR_CHECK(decoder.check());
  const std::uint64_t end = first + to.size();
  for (std::uint64_t b = first / chunk.block; b * chunk.block < end; ++b) {
    WEIR_TRY(const bytes_view block, decoder.decode(b));
    const std::uint64_t begin = b * chunk.block;
    const std::uint64_t from = std::max(begin, first);
    // The block covers decoded bytes `begin` and on; the overlap is [from, until).
    const std::uint64_t until = std::min(begin + block.size(), end);
    if (to.has_memory()) {
      std::memcpy(to.bytes().data() + (from - first), block.data() + (from - begin),
                  until - from);
    }
  }
  return {};
}

}  // namespace

/// Kinds 1 and 4 ("uninitialised") become zeros, so that decoding is deterministic.
result<void> fill_blosc2_special(unsigned special, unsigned type_size, bytes_view value,
                                 std::uint64_t first, const decode_target& to) {
  std::array<std::byte, 8> nan{};
  const mutable_bytes out = to.bytes();
  switch (special) {
    case 1:
    case 4: std::fill(out.begin(), out.end(), std::byte{}); return {};
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
  // The pattern begins at the start of the chunk, so byte `first + i` decides.
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = value[(first + i) % value.size()];
  }
  return {};
}

/// Field offsets: 0 version, 2 flags, 3 type size, 4 decoded size, 8 block size, 12
/// stored size, 16 filters, 24 filter parameters, 31 further flags (Blosc2 chunk format).
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
  // Byte 31 has the kind of a special chunk in bits 4 to 6, and says in bit 0 that there
  // is a dictionary.
  const unsigned more = byte_at(from, 31);
  out.special = more >> 4 & 7u;
  if ((out.flags & blosc2_flag::extended) != blosc2_flag::extended || (more & 1u) != 0) {
    return error(errc::unsupported,
                 "cannot decompress payload: expected chunks of blosc2 with their long "
                 "header and without a dictionary, found others");
  }
  // The header states the stored size, which may be less than the bytes at hand.
  if (stored < blosc2_chunk_header || stored > from.size() || out.size > 0x7FFF'FFFF) {
    return damaged_chunk("impossible sizes");
  }
  out.bytes = from.first(stored);
  return out;
}

/// A chunk is special, stored plain, or made of blocks; the flags decide in this order.
result<void> decode_blosc2_chunk(const blosc2_chunk& chunk, std::uint64_t first,
                                 const decode_target& to) {
  if (to.size() == 0) {
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
    if (to.has_memory()) {
      std::memcpy(to.bytes().data(), body.data() + first, to.size());
    }
    return {};
  }
  return decode_blocks(chunk, first, to);
}

}  // namespace weir::formats
