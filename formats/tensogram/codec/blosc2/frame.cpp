// SPDX-License-Identifier: Apache-2.0
/// @file
/// Contiguous frames of Blosc2: header, chunks, list of chunk offsets, trailer. Numbers
/// of the header are big-endian msgpack values at fixed offsets; numbers of chunks are
/// little-endian.
///
/// A range is read in three steps: the header is compared with what the descriptor says,
/// the list of offsets is opened, and each chunk that overlaps the range is decoded by
/// `chunk.cpp`. The trailer holds metadata of Blosc2 that the format does not use.
#include <algorithm>

#include "tensogram/codec/blosc2/blosc2.hpp"

namespace weir::formats {

namespace {

/// Size of the header without its optional part.
constexpr std::size_t least_header = 0x57;
/// Lists of offsets up to this size, in bytes, are decoded as a whole.
constexpr std::uint64_t small_list = 65536;
/// A msgpack array of 14 elements begins with a text of 8 bytes, this one and a zero.
constexpr std::string_view frame_start =
    "\x9e\xa8"
    "b2frame";

/// Returns the error for a damaged frame; `text` says what was found.
error damaged_frame(std::string_view text) {
  return error(errc::corrupt,
               fmt::format("cannot decompress payload: expected a frame of blosc2, found "
                           "{}",
                           text));
}

/// Fields of the header.
struct frame_head {
  std::uint64_t header = 0;     ///< bytes of the header; chunks follow
  std::uint64_t size = 0;       ///< decoded
  std::uint64_t cbytes = 0;     ///< of all chunks
  std::uint32_t type_size = 1;  ///< bytes of an item
  std::uint32_t chunk = 0;      ///< bytes that a chunk decodes to; 0: they differ
};

/// Reads a big-endian number of the header.
template <class T>
T number_at(bytes_view from, std::size_t offset) noexcept {
  return load_be<T>(from.data() + offset);
}

/// Reads the header and compares its sizes with the payload and with the size `total`
/// that the descriptor demands. Byte 0x1A is 0 for frames that contain their chunks.
result<frame_head> read_head(bytes_view from, std::uint64_t total) {
  if (from.size() < least_header || as_text(from).substr(0, 9) != frame_start) {
    return damaged_frame("other bytes");
  }
  frame_head out;
  out.header = number_at<std::uint32_t>(from, 0x0B);
  out.size = number_at<std::uint64_t>(from, 0x1E);
  out.cbytes = number_at<std::uint64_t>(from, 0x27);
  out.type_size = number_at<std::uint32_t>(from, 0x30);
  out.chunk = number_at<std::uint32_t>(from, 0x3A);
  // The size of the frame must be that of the payload: a frame is stored whole.
  if (number_at<std::uint64_t>(from, 0x10) != from.size()) {
    return damaged_frame(fmt::format("one of {} bytes in a payload of {}",
                                     number_at<std::uint64_t>(from, 0x10), from.size()));
  }
  if (out.size != total) {
    return damaged_frame(fmt::format("one of {} bytes where {} belong", out.size, total));
  }
  if (out.header < least_header || out.header > from.size() ||
      out.cbytes > from.size() - out.header || out.chunk > 0x7FFF'FFFF ||
      std::to_integer<unsigned>(from[0x1A]) != 0) {
    return damaged_frame("impossible sizes, or chunks outside it");
  }
  return out;
}

/// The offset of each chunk behind the header; a negative one stands for a special chunk,
/// which is not stored. The list itself is a chunk. Compressed, it may claim to be as
/// long as the object, so it is decoded block by block and only one block is kept.
class offset_list {
 public:
  /// Reads the header of the list and checks its length. @error{corrupt; unsupported}
  static result<offset_list> open(bytes_view from, const frame_head& head) {
    offset_list out;
    if (head.size == 0) {
      return out;
    }
    WEIR_TRY(out.list_, read_blosc2_chunk(from.subspan(head.header + head.cbytes)));
    out.count_ = head.chunk == 0 ? out.list_.size / width
                                 : (head.size + head.chunk - 1) / head.chunk;
    // A chunk is larger than the eight bytes of its offset, so the list is shorter than
    // the object; small lists are exempt.
    if (out.list_.size != width * out.count_ ||
        out.list_.size > std::max(head.size, small_list)) {
      return damaged_frame("a list of chunks of another length");
    }
    const bool compressed =
        out.list_.special == 0 && (out.list_.flags & blosc2_flag::plain) == 0;
    out.step_ = compressed ? out.list_.block : small_list;
    if (compressed && (out.step_ == 0 || out.step_ % width != 0)) {
      return damaged_frame("a list of chunks in blocks that divide its offsets");
    }
    return out;
  }

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

  /// Returns the offset of chunk `i`. @error{corrupt; unsupported; out_of_memory}
  result<std::int64_t> operator[](std::uint64_t i) {
    // Only one part of the list is in memory. Chunks are asked for in order, so each part
    // is decoded once.
    const std::uint64_t offset = width * i;
    if (offset < begin_ || offset >= begin_ + part_.bytes.size()) {
      WEIR_CHECK(load(offset / step_ * step_));
    }
    return static_cast<std::int64_t>(
        load_le<std::uint64_t>(part_.bytes.data() + (offset - begin_)));
  }

 private:
  static constexpr std::uint64_t width = 8;

  /// Decodes the block of the list that starts at byte `begin`.
  result<void> load(std::uint64_t begin) {
    const std::uint64_t size = std::min(step_, list_.size - begin);
    if (must_be_shown(size, list_.bytes.size())) {
      WEIR_CHECK(decode_blosc2_chunk(list_, begin, decode_target::nowhere(size)));
    }
    WEIR_TRY(part_, make_buffer(static_cast<std::size_t>(size)));
    begin_ = begin;
    return decode_blosc2_chunk(list_, begin, part_.writable());
  }

  blosc2_chunk list_;
  std::uint64_t count_ = 0;
  std::uint64_t step_ = small_list;  ///< bytes that are decoded together
  std::uint64_t begin_ = 0;          ///< of `part_` in the list
  code_buffer part_;
};

/// Decodes a range of the object from the chunks that hold it.
class frame_reader {
 public:
  frame_reader(bytes_view from, const frame_head& head, std::uint64_t first,
               const decode_target& to)
      : from_(from), head_(head), first_(first), to_(to) {}

  /// Goes from chunk to chunk until the requested range is complete.
  result<void> run(offset_list& offsets) {
    const std::uint64_t end = first_ + to_.size();
    // Chunks of one size before the first requested byte are skipped. If the sizes
    // differ, each chunk's header must be read to find where it begins.
    std::uint64_t i = head_.chunk == 0 ? 0 : first_ / head_.chunk;
    std::uint64_t begin = i * head_.chunk;
    // `begin` is the decoded byte at which chunk `i` begins.
    for (; i < offsets.count() && begin < end; ++i) {
      WEIR_TRY(const std::int64_t offset, offsets[i]);
      WEIR_TRY(const std::uint64_t size, read_one(offset, begin, end));
      begin += size;
    }
    return begin >= end ? result<void>() : result<void>(damaged_frame("too few chunks"));
  }

 private:
  /// Reads the requested part of the chunk that starts at decoded byte `begin`. Returns
  /// the decoded size of the chunk.
  result<std::uint64_t> read_one(std::int64_t offset, std::uint64_t begin,
                                 std::uint64_t end) {
    // The last chunk may be shorter than the others.
    const std::uint64_t left = head_.size - begin;
    std::uint64_t size = std::min<std::uint64_t>(head_.chunk, left);
    blosc2_chunk chunk;
    const bool special = offset < 0;
    if (!special) {
      if (static_cast<std::uint64_t>(offset) >= head_.cbytes) {
        return damaged_frame("a chunk outside it");
      }
      WEIR_TRY(chunk, read_blosc2_chunk(from_.subspan(
                          head_.header + static_cast<std::uint64_t>(offset),
                          head_.cbytes - static_cast<std::uint64_t>(offset))));
      if (chunk.size > left || chunk.size == 0 ||
          (head_.chunk != 0 && chunk.size != size)) {
        return damaged_frame("a chunk of another size");
      }
      size = chunk.size;
    } else if (head_.chunk == 0) {
      return damaged_frame("a special chunk of unknown size");
    }
    // [from, until) is the part of the chunk that lies in the range, in decoded bytes.
    const std::uint64_t from = std::max(begin, first_);
    const std::uint64_t until = std::min(begin + size, end);
    if (from < until) {
      const decode_target part = to_.part(from - first_, until - from);
      if (special) {
        // The kind of a special chunk is in the highest byte of its offset.
        const auto kind = static_cast<unsigned>(static_cast<std::uint64_t>(offset) >> 56);
        WEIR_CHECK(
            fill_blosc2_special(kind & 7u, head_.type_size, {}, from - begin, part));
      } else {
        WEIR_CHECK(decode_blosc2_chunk(chunk, from - begin, part));
      }
    }
    return size;
  }

  bytes_view from_;  ///< the whole frame
  const frame_head& head_;
  std::uint64_t first_;  ///< first decoded byte of the range
  decode_target to_;     ///< memory of the range
};

}  // namespace

result<void> blosc2_decode(bytes_view from, std::uint64_t total, std::uint64_t first,
                           const decode_target& to) {
  WEIR_TRY(const frame_head head, read_head(from, total));
  WEIR_TRY(offset_list offsets, offset_list::open(from, head));
  return frame_reader(from, head, first, to).run(offsets);
}

}  // namespace weir::formats
