// SPDX-License-Identifier: Apache-2.0
/// @file
/// Finds messages among other bytes.
///
/// Forward, a message is found by its start magic and accepted if the end magic stands
/// where its length says. Backward, the length in the postamble leads to its start
/// (tensogram_internals.md, "Postamble"). If nothing is found, the search goes on at the
/// next start magic, so damage costs one message and not the rest of the file.
///
/// A message counts if its two ends fit together; what is between them is not looked at.
/// A stream has no length in front, so its frames are followed.
#include <algorithm>
#include <optional>

#include "tensogram/read/layout.hpp"
#include "weir/formats/tensogram.hpp"

namespace weir::formats {

namespace {

/// Bytes that are searched at a time in a source that is not in memory.
constexpr std::uint64_t search_piece = 64 << 10;
/// Longest message that the backward search accepts, in bytes.
constexpr std::uint64_t largest_backward = std::uint64_t{1} << 32;

/// Scans a source from the start, from the end, or from both ends in turn. Messages found
/// from the end shrink the range that remains for the search from the start. When the
/// search from the end meets anything but a message, the other one does the rest.
class scanner {
 public:
  explicit scanner(const byte_source& source) : pieces_(source), size_(source.size()) {}

  /// Alternates between the ends if both are searched, so a file that is sound at one end
  /// is read quickly. Messages from the end are collected in reverse order.
  /// The search from the end stops at the first bytes that are no message.
  result<std::vector<message_span>> run(scan_order order) {
    std::vector<message_span> found;
    std::vector<message_span> from_end;
    bool backward = order != scan_order::forward;
    std::uint64_t offset = 0;
    while (offset < size_ && size_ - offset >= smallest_message) {
      if (backward) {
        WEIR_TRY(const std::uint64_t length, message_before(size_, offset));
        backward = length > 0;
        if (backward) {
          size_ -= length;
          from_end.push_back({size_, length});
        }
        // With `backward` alone, the next message before this one follows at once.
        if (backward && order == scan_order::backward) {
          continue;
        }
      }
      WEIR_TRY(const bool more, step(offset, found));
      if (!more) {
        break;
      }
    }
    found.insert(found.end(), from_end.rbegin(), from_end.rend());
    return found;
  }

 private:
  /// Takes the message at `offset`, or moves `offset` to the next place where one may
  /// start. Returns false at the end.
  result<bool> step(std::uint64_t& offset, std::vector<message_span>& found) {
    if (offset >= size_ || size_ - offset < smallest_message) {
      return false;
    }
    WEIR_TRY(const std::uint64_t length, message_at(offset));
    if (length > 0) {
      found.push_back({offset, length});
      offset += length;
      return true;
    }
    WEIR_TRY(const auto next, find(start_magic, offset + 1));
    // The search goes on one byte behind the start that was no message.
    offset = next.value_or(size_);
    return next.has_value();
  }

  /// Returns the length of the message that ends at `end` and starts at `least` or later;
  /// 0 unless postamble and preamble agree on it.
  result<std::uint64_t> message_before(std::uint64_t end, std::uint64_t least) {
    // Reads the postamble that would end at `end`.
    WEIR_TRY(const bytes_view tail, pieces_.read(end - postamble_size, postamble_size));
    const auto total = load_be<std::uint64_t>(tail.data() + 8);
    if (!starts_with(tail.subspan(16), end_magic) || total < smallest_message ||
        // A length near 2^64 must not make a search read a whole file, so there is a
        // limit.
        total > largest_backward || total > end - least) {
      return std::uint64_t{0};
    }
    WEIR_TRY(const bytes_view start, pieces_.read(end - total, preamble_size));
    const auto head = starts_with(start, start_magic)
                          ? parse_preamble(start)
                          : error(errc::corrupt, "no message begins here");
    return head && head->total_length == total ? total : 0;
  }

  /// Returns the length of the message at `offset`, or 0 if there is none.
  result<std::uint64_t> message_at(std::uint64_t offset) {
    WEIR_TRY(const bytes_view bytes, pieces_.read(offset, preamble_size));
    const auto head = starts_with(bytes, start_magic)
                          ? parse_preamble(bytes)
                          : error(errc::corrupt, "no message begins here");
    if (!head) {
      return std::uint64_t{0};
    }
    const std::uint64_t total = head->total_length;
    if (total == 0) {
      return stream_at(offset);
    }
    if (total < smallest_message || total > size_ - offset) {
      return std::uint64_t{0};
    }
    // Only the end magic is read; the postamble is checked when the message is opened.
    WEIR_TRY(const bytes_view end,
             pieces_.read(offset + total - end_magic.size(), end_magic.size()));
    return starts_with(end, end_magic) ? total : 0;
  }

  /// Returns the length of the stream at `offset`. A stream ends where its frames lead;
  /// if they are damaged, at the next end magic. That place is remembered, so that many
  /// damaged starts before it cost one search. A file can be made such that all of its
  /// damaged starts lead to the same frames. When more frames have been walked in vain
  /// than the file can hold, later starts are therefore treated as damaged at once.
  result<std::uint64_t> stream_at(std::uint64_t offset) {
    if (vain_frames_ <= size_ / frame_header_size) {
      WEIR_TRY(const walked_stream walked,
               walk_stream(pieces_, {offset, size_ - offset}));
      if (walked.length > 0) {
        return walked.length;
      }
      vain_frames_ += walked.frames;
    }
    const std::uint64_t from = offset + preamble_size;
    // The search is repeated only if the known end lies before this start.
    if (!known_end_ || *known_end_ < from) {
      if (no_more_ends_) {
        return std::uint64_t{0};
      }
      WEIR_TRY(known_end_, find(end_magic, from));
      no_more_ends_ = !known_end_;
    }
    if (!known_end_ || *known_end_ + end_magic.size() < offset + smallest_message) {
      return std::uint64_t{0};
    }
    return *known_end_ + end_magic.size() - offset;
  }

  /// Finds a text. Pieces overlap by its size less one, so that no place is missed.
  result<std::optional<std::uint64_t>> find(std::string_view text, std::uint64_t from) {
    // In memory, one pass sees all bytes.
    const std::uint64_t step = pieces_.in_memory() ? size_ : search_piece;
    while (from < size_ && size_ - from >= text.size()) {
      const std::uint64_t count = std::min(step, size_ - from);
      WEIR_TRY(const bytes_view piece, pieces_.read(from, count));
      const std::size_t hit = as_text(piece).find(text);
      if (hit != std::string_view::npos) {
        return std::optional(from + hit);
      }
      if (count == size_ - from) {
        break;
      }
      from += count - (text.size() - 1);
    }
    return std::optional<std::uint64_t>();
  }

  piece_reader pieces_;  ///< reads the source
  std::uint64_t size_;   ///< end of the bytes that are still to be scanned
  std::optional<std::uint64_t>
      known_end_;                  ///< next end magic, so that it is searched for once
  bool no_more_ends_ = false;      ///< no end magic behind the last search
  std::uint64_t vain_frames_ = 0;  ///< frames of walks that led to no postamble
};

}  // namespace

result<std::vector<message_span>> scan(const byte_source& source) {
  return scanner(source).run(scan_order::forward);
}

result<std::vector<message_span>> scan(const byte_source& source, scan_order order) {
  return scanner(source).run(order);
}

std::vector<message_span> scan(bytes_view bytes) {
  // Reading memory does not fail.
  return std::move(scan(memory_byte_source(bytes))).value_or(std::vector<message_span>());
}

}  // namespace weir::formats
