// SPDX-License-Identifier: Apache-2.0
/// @file
/// Contiguous frames of Blosc2: header, chunks, where the chunks are, trailer.
#include <algorithm>
#include <limits>
#include <vector>

#include "tensogram/codec/blosc2/blosc2.hpp"

namespace weir::formats {

namespace {

constexpr std::size_t least_header = 0x57;
constexpr std::uint64_t small_list = 65536;
constexpr std::string_view frame_start =
    "\x9e\xa8"
    "b2frame";

error damaged_frame(std::string_view what) {
  return error(errc::corrupt,
               fmt::format("cannot decompress payload: expected a frame of blosc2, found "
                           "{}",
                           what));
}

struct frame_head {
  std::uint64_t header = 0;
  std::uint64_t size = 0;    ///< decoded
  std::uint64_t cbytes = 0;  ///< of all chunks
  std::uint32_t type_size = 1;
  std::uint32_t chunk = 0;  ///< bytes that a chunk decodes to; 0: they differ
};

template <class T>
T number_at(bytes_view from, std::size_t at) noexcept {
  return load_be<T>(from.data() + at);
}

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

/// Where each chunk starts, behind the header; negative for one that is not stored.
result<std::vector<std::int64_t>> read_offsets(bytes_view from, const frame_head& head) {
  std::vector<std::int64_t> out;
  if (head.size == 0) {
    return out;
  }
  WEIR_TRY(const blosc2_chunk chunk,
           read_blosc2_chunk(from.subspan(head.header + head.cbytes)));
  const std::uint64_t count =
      head.chunk == 0 ? chunk.size / 8 : (head.size + head.chunk - 1) / head.chunk;
  // Chunks are larger than the eight bytes that say where they are.
  if (chunk.size != 8 * count || chunk.size > std::max(head.size, small_list)) {
    return damaged_frame("a list of chunks of another length");
  }
  WEIR_TRY(code_buffer bytes, make_buffer(8 * count));
  WEIR_CHECK(decode_blosc2_chunk(chunk, 0, bytes.writable()));
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back(
        static_cast<std::int64_t>(load_le<std::uint64_t>(bytes.bytes.data() + 8 * i)));
  }
  return out;
}

class frame_reader {
 public:
  frame_reader(bytes_view from, const frame_head& head, std::uint64_t first,
               mutable_bytes to)
      : from_(from), head_(head), first_(first), to_(to) {}

  result<void> run(const std::vector<std::int64_t>& offsets) {
    const std::uint64_t end = first_ + to_.size();
    std::uint64_t begin = 0;
    for (const std::int64_t offset : offsets) {
      if (begin >= end) {
        break;
      }
      WEIR_TRY(const std::uint64_t size, read_one(offset, begin, end));
      begin += size;
    }
    return begin >= end ? result<void>() : result<void>(damaged_frame("too few chunks"));
  }

 private:
  /// What of the chunk that starts at byte `begin` is asked for. Returns its size.
  result<std::uint64_t> read_one(std::int64_t offset, std::uint64_t begin,
                                 std::uint64_t end) {
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
    const std::uint64_t from = std::max(begin, first_);
    const std::uint64_t until = std::min(begin + size, end);
    if (from < until) {
      const mutable_bytes part = to_.subspan(from - first_, until - from);
      if (special) {
        const auto kind = static_cast<unsigned>(static_cast<std::uint64_t>(offset) >> 56);
        WEIR_CHECK(
            fill_blosc2_special(kind & 7u, head_.type_size, {}, from - begin, part));
      } else {
        WEIR_CHECK(decode_blosc2_chunk(chunk, from - begin, part));
      }
    }
    return size;
  }

  bytes_view from_;
  const frame_head& head_;
  std::uint64_t first_;
  mutable_bytes to_;
};

}  // namespace

result<void> blosc2_decode(bytes_view from, std::uint64_t total, std::uint64_t first,
                           mutable_bytes to) {
  WEIR_TRY(const frame_head head, read_head(from, total));
  WEIR_TRY(const auto offsets, read_offsets(from, head));
  return frame_reader(from, head, first, to).run(offsets);
}

}  // namespace weir::formats
