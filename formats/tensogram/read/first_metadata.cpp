// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads the metadata of a message from its first frames, without the rest.
///
/// This serves callers that have only the first bytes of a message, such as a listing of
/// a remote file. It has checks of its own, since the walk of `layout.cpp` needs a source
/// with all bytes. It checks the frames that it passes and the digest of the metadata,
/// but neither the order of frames nor the flags of the preamble.
#include <fmt/core.h>

#include "tensogram/read/layout.hpp"
#include "tensogram/wire/metadata.hpp"
#include "weir/base/hash.hpp"

namespace weir::formats {

namespace {

/// Returns the error for a message that ends inside a frame. Its code, `torn`, tells the
/// caller that more bytes may help.
error cut_short(std::uint64_t offset) {
  return error(errc::torn, fmt::format("cannot read metadata: expected a whole frame at "
                                       "{}, found the end of the message",
                                       offset));
}

/// Returns the frame at `offset`, after checks of its header, length and end.
result<frame_info> frame_at(bytes_view message, std::uint64_t offset) {
  if (message.size() < offset + frame_header_size) {
    return cut_short(offset);
  }
  const std::byte* head = message.data() + offset;
  frame_info out;
  out.type = load_be<std::uint16_t>(head + 2);
  out.flags = load_be<std::uint16_t>(head + 6);
  out.offset = offset;
  out.length = load_be<std::uint64_t>(head + 8);
  // The length must have room for header and tail before the tail is looked at.
  if (!starts_with(message.subspan(offset), frame_magic) || phase_of(out.type) < 0 ||
      out.length < frame_header_size + tail_size(out.type)) {
    return error(errc::corrupt,
                 fmt::format("cannot read metadata: expected a frame at {}, found other "
                             "bytes",
                             offset));
  }
  if (out.length > message.size() - offset) {
    return cut_short(offset);
  }
  // The last 12 bytes are the digest and "ENDF" in frames of every type.
  const bytes_view tail = message.subspan(offset + out.length - frame_tail_size);
  if (!starts_with(tail.subspan(8), frame_end_magic)) {
    return error(errc::corrupt,
                 fmt::format("cannot read metadata: expected \"ENDF\" at {}, found other "
                             "bytes",
                             offset + out.length - 4));
  }
  out.digest = load_be<std::uint64_t>(tail.data());
  return out;
}

}  // namespace

/// Walks from frame to frame until it meets one with metadata. Metadata in the footer are
/// found too, at the cost of walking over all objects before them.
result<message_metadata> read_metadata(bytes_view message) {
  if (message.size() < smallest_message) {
    return cut_short(0);
  }
  WEIR_TRY(const preamble head, parse_preamble(message));
  // A stream has no length in its preamble; its frames are followed as far as needed.
  // The bytes may be fewer than the message; what is missing is noticed frame by frame.
  if (head.total_length != 0 && head.total_length <= message.size()) {
    message = message.first(head.total_length);
  }
  std::uint64_t offset = preamble_size;
  while (true) {
    WEIR_TRY(const frame_info frame, frame_at(message, offset));
    if (is_metadata_frame(frame.type)) {
      const frame_body body = body_of(frame);
      const bytes_view bytes = message.subspan(body.offset, body.length);
      if ((frame.flags & frame_flag::hash_present) != 0 &&
          xxh3_64(bytes) != frame.digest) {
        return error(errc::hash_mismatch,
                     fmt::format("cannot trust metadata: expected digest {}, found {}",
                                 hex64(frame.digest), hex64(xxh3_64(bytes))));
      }
      // Deviations from canonical form are no concern of a reader.
      WEIR_TRY(cbor_item item, decode_cbor(bytes));
      return parse_metadata(std::move(item.value));
    }
    // Writers pad frames to a multiple of 8 bytes, but need not.
    const std::uint64_t end = offset + frame.length;
    // A frame may follow without padding.
    const bool unpadded =
        message.size() - end >= 2 && starts_with(message.subspan(end), frame_magic);
    offset = unpadded ? end : align_up(end, frame_alignment);
  }
}

}  // namespace weir::formats
