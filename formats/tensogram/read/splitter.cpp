// SPDX-License-Identifier: Apache-2.0
/// @file
/// Finds messages in bytes that arrive piece by piece, for example from a pipe.
///
/// The splitter keeps bytes from the first possible start of a message on. It remembers
/// how far it has walked over frames and how far it has searched, so every byte is looked
/// at a bounded number of times, however small the pieces are.
///
/// The result is that of `scan` on all bytes together, except that messages longer than
/// `largest_` are skipped. The state of a search is:
///
///   start_      first byte that is held; the bytes before it are done with
///   walked_     end of the last frame of a stream that has been walked over
///   searched_   place from which the end magic is searched next
///
/// The last two count from `start_` and are valid for the message that begins there.
#include <algorithm>

#include "tensogram/read/layout.hpp"

namespace weir::formats {

namespace {

/// Smallest frame, in bytes.
constexpr std::uint64_t smallest_frame = frame_header_size + frame_tail_size;

/// Returns true if a frame or the postamble begins at `offset`. @pre `bytes` has at least
/// the size of a postamble from there on
/// The postamble is recognised by its magic alone; see `hop`.
bool frame_or_end_at(bytes_view bytes, std::uint64_t offset) {
  return starts_with(bytes.subspan(offset), frame_magic) ||
         starts_with(bytes.subspan(offset + 16), end_magic);
}

}  // namespace

/// Drops bytes that are done with only when they are more than half of the buffer, so
/// that moving the rest costs constant time per byte.
void message_splitter::put(bytes_view bytes) {
  if (start_ > bytes_.size() / 2) {
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(start_));
    start_ = 0;
  }
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

/// Returns the held bytes. They begin with a start magic after go_to_magic() was true.
bytes_view message_splitter::rest() const noexcept {
  return bytes_view(bytes_).subspan(start_);
}

/// Drops bytes in front and forgets what was found out about them.
/// `skipped_` counts the bytes since the last message, which the caller reports.
void message_splitter::skip(std::uint64_t bytes) {
  start_ += bytes;
  passed_ += bytes;
  skipped_ += bytes;
  walked_ = 0;
  searched_ = 0;
}

/// Skips bytes that cannot begin a message. Returns false if more bytes are needed. The
/// last bytes are kept if they may be the beginning of a start magic.
bool message_splitter::go_to_magic() {
  const bytes_view bytes = rest();
  const std::size_t start = as_text(bytes).find(start_magic);
  if (start != std::string_view::npos) {
    skip(start);
    // A message needs at least a preamble and a postamble.
    return bytes.size() - start >= smallest_message;
  }
  const std::size_t open = ended_ ? 0 : start_magic.size() - 1;
  skip(bytes.size() - std::min(bytes.size(), open));
  return false;
}

/// Returns the next whole message. After the end of the input, bytes that are left are
/// skipped and reported as cut short if they begin like a message.
std::optional<message_splitter::piece> message_splitter::take() {
  while (go_to_magic()) {
    // `unclear` waits for more bytes, `nothing` goes on behind the first byte of the
    // magic.
    std::uint64_t length = 0;
    const found result = look(length);
    if (result == found::unclear) {
      return std::nullopt;
    }
    if (result == found::nothing) {
      skip(1);
      continue;
    }
    piece out{passed_, skipped_, {}};
    // The bytes of the message are copied, because the buffer moves when bytes are put.
    const bytes_view message = rest().first(length);
    out.bytes.assign(message.begin(), message.end());
    skip(length);
    skipped_ = 0;
    cut_short_ = false;
    return out;
  }
  if (ended_) {
    cut_short_ = cut_short_ || starts_with(rest(), start_magic);
    skip(held());
  }
  return std::nullopt;
}

/// Classifies the start of the held bytes, which begin with the start magic.
message_splitter::found message_splitter::look(std::uint64_t& length) {
  const bytes_view bytes = rest();
  const auto head = parse_preamble(bytes.first(preamble_size));
  // Other versions and other bytes behind the magic.
  if (!head) {
    return found::nothing;
  }
  length = head->total_length;
  if (length == 0) {
    return look_at_stream(length);
  }
  if (length < smallest_message || length > largest_) {
    return found::nothing;
  }
  // After the end of the input, a length beyond it belongs to a message that was cut
  // short.
  if (length > bytes.size()) {
    cut_short_ = cut_short_ || (ended_ && skipped_ == 0);
    return ended_ ? found::nothing : found::unclear;
  }
  const bytes_view end = bytes.subspan(length - end_magic.size());
  return starts_with(end, end_magic) ? found::message : found::nothing;
}

/// Finds the end of a streamed message: behind its last frame, or at the next end magic
/// if the frames are damaged.
message_splitter::found message_splitter::look_at_stream(std::uint64_t& length) {
  // The frames are walked first. Once the search for the end magic has begun, the walk
  // has failed for good.
  if (searched_ == 0) {
    const found walked = hop(length);
    if (walked == found::unclear && !ended_) {
      return walked;
    }
    if (walked == found::message) {
      // hop() checks only lengths and magics, so the frames are walked once more with all
      // checks.
      const memory_byte_source whole(rest().first(length));
      piece_reader pieces(whole);
      if (walk_stream(pieces, {0, length}).value_or(walked_stream()).length == length) {
        return walked;
      }
    }
    searched_ = preamble_size;
  }
  return search_end(length);
}

/// Walks from frame to frame by their lengths, as far as the bytes have arrived. Only a
/// hint: the caller walks over a complete message again with all checks.
message_splitter::found message_splitter::hop(std::uint64_t& length) {
  const bytes_view bytes = rest();
  walked_ = std::max(walked_, preamble_size);
  while (bytes.size() - walked_ >= postamble_size) {
    if (!starts_with(bytes.subspan(walked_), frame_magic)) {
      length = walked_ + postamble_size;
      return frame_or_end_at(bytes, walked_) ? found::message : found::nothing;
    }
    const auto frame = load_be<std::uint64_t>(bytes.data() + walked_ + 8);
    if (frame < smallest_frame || frame > largest_ - walked_) {
      return found::nothing;
    }
    const std::uint64_t end = walked_ + frame;
    // Whether padding follows a frame is known when the bytes behind it have arrived.
    const std::uint64_t padded =
        (end + frame_alignment - 1) / frame_alignment * frame_alignment;
    const auto fits = [&](std::uint64_t offset) {
      return offset <= bytes.size() && bytes.size() - offset >= postamble_size;
    };
    // The bytes at `end` decide whether padding follows, so they must have arrived.
    if (!fits(end)) {
      break;
    }
    if (!frame_or_end_at(bytes, end) && !fits(padded)) {
      break;
    }
    walked_ = frame_or_end_at(bytes, end) ? end : padded;
    if (walked_ > largest_) {
      return found::nothing;
    }
  }
  return found::unclear;
}

/// Searches for the end magic of a stream whose frames are damaged.
message_splitter::found message_splitter::search_end(std::uint64_t& length) {
  const bytes_view bytes = rest();
  // Many damaged streams may begin before one end magic, and the search of each would
  // pass over the same bytes. Offsets without an end magic are therefore kept.
  const std::uint64_t begin = passed_ + searched_;
  if (begin >= endless_from_ && begin <= endless_to_) {
    searched_ = endless_to_ - passed_;
  } else {
    endless_from_ = begin;
  }
  const std::size_t hit = as_text(bytes).find(end_magic, searched_);
  if (hit != std::string_view::npos) {
    endless_to_ = passed_ + hit;
    length = hit + end_magic.size();
    return length < smallest_message || length > largest_ ? found::nothing
                                                          : found::message;
  }
  // A magic may lie across the end of the bytes, so the last 7 are searched again.
  searched_ = std::max(searched_, bytes.size() - (end_magic.size() - 1));
  endless_to_ = passed_ + searched_;
  if (ended_ || bytes.size() > largest_) {
    cut_short_ = cut_short_ || (ended_ && skipped_ == 0);
    return found::nothing;
  }
  return found::unclear;
}

}  // namespace weir::formats
