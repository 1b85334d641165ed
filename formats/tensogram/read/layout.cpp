// SPDX-License-Identifier: Apache-2.0
/// @file
/// Finds the frames of a message and checks that each may stand where it stands:
/// preamble, frames of header, data objects and footer in this order, postamble
/// (tensogram_internals.md, "Frame-Based Wire Format" and "Frame Ordering Validation").
///
/// Every length comes from the file and is compared with the bytes that are left before
/// it is used. The walk reads 16 bytes at the start and 12 or 20 bytes at the end of each
/// frame, never a payload, so it costs the same for small and for large objects.
#include "tensogram/read/layout.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <limits>

namespace weir::formats {

/// The range is checked against the source before memory is taken.
result<bytes_view> piece_reader::read(std::uint64_t offset, std::uint64_t bytes) {
  // Written as a subtraction, since the sum could overflow.
  if (offset > source_.size() || bytes > source_.size() - offset) {
    return error(errc::torn,
                 fmt::format("cannot read {} bytes: expected them there, found the end "
                             "at {}",
                             bytes, source_.size()))
        .located(place(source_, offset));
  }
  // The bytes of a source in memory are not copied.
  if (view_) {
    return view_->subspan(offset, bytes);
  }
  try {
    buffer_.resize(bytes);
  } catch (const std::exception&) {
    return error(errc::out_of_memory,
                 fmt::format("cannot read {} bytes: expected memory for them, found too "
                             "little",
                             bytes))
        .located(place(source_, offset));
  }
  // The view is valid until the next call.
  WEIR_CHECK(source_.read(offset, buffer_));
  return bytes_view(buffer_);
}

/// The level is that of structure; other levels use `add`.
void issue_list::fail(std::string code, errc kind, std::uint64_t offset,
                      std::string text) {
  found_.push_back({{std::move(code), validation_level::structure, issue_severity::error,
                     std::nullopt, offset, std::move(text)},
                    kind});
}

void issue_list::warn(std::string code, std::uint64_t offset, std::string text) {
  found_.push_back({{std::move(code), validation_level::structure,
                     issue_severity::warning, std::nullopt, offset, std::move(text)},
                    errc::corrupt});
}

/// Returns the first error. Warnings do not prevent a message from being read.
const found_issue* issue_list::first_error() const noexcept {
  for (const found_issue& found : found_) {
    // Warnings are passed over.
    if (found.issue.severity == issue_severity::error) {
      return &found;
    }
  }
  return nullptr;
}

/// The subtraction cannot wrap around: a frame is in a layout only if it is long enough.
/// Behind the header of the frame, up to its tail.
frame_body body_of(const frame_info& frame) noexcept {
  return {frame.offset + frame_header_size,
          frame.length - frame_header_size - tail_size(frame.type)};
}

/// Errors of all parts of the reader use this form.
std::string place(const byte_source& source, std::uint64_t offset) {
  return fmt::format("{}:{}", source.name(), offset);
}

/// The place of the error is that of the fault in the source, and its object if it has
/// one.
error as_error(const found_issue& found, const byte_source& source,
               std::uint64_t message) {
  std::string where = place(source, message + found.issue.byte_offset.value_or(0));
  if (found.issue.object) {
    where += fmt::format(" (object {})", *found.issue.object);
  }
  return error(found.code, found.issue.description).located(std::move(where));
}

namespace {

/// Largest offset; adding a length to an offset must not pass it.
constexpr std::uint64_t furthest = std::numeric_limits<std::uint64_t>::max();

/// Walks from the preamble to the postamble, from frame to frame by their lengths. The
/// end of a message is known from its preamble, except for a stream, which ends where a
/// postamble stands in the place of a frame. A fault goes to the issues and ends the
/// walk; errors of the source are returned.
class frame_walk {
 public:
  frame_walk(piece_reader& pieces, message_layout& layout, issue_list& issues)
      : pieces_(pieces), layout_(layout), issues_(issues) {}

  /// Walks all frames. `end` is the start of the postamble, or for a stream the end of
  /// the bytes that it may use.
  /// The length of a stream becomes known here.
  result<void> run(std::uint64_t end, bool stream) {
    stream_ = stream;
    WEIR_TRY(const std::uint64_t offset, fill(preamble_size, end));
    // Zero means that a fault has ended the walk.
    if (offset != 0) {
      layout_.span.length = offset + postamble_size;
    }
    return {};
  }

  /// Takes frames from `offset` on until they reach `end`. Returns the offset at which
  /// they end, or 0 after a fault.
  result<std::uint64_t> fill(std::uint64_t offset, std::uint64_t end) {
    end_ = end;
    while (!layout_.complete) {
      // Frames must meet the postamble exactly.
      if (!stream_ && offset == end_) {
        layout_.complete = true;
        break;
      }
      WEIR_TRY(const std::uint64_t next, step(offset));
      if (next == 0) {
        return std::uint64_t{0};
      }
      offset = next;
    }
    return offset;
  }

  /// Takes the frames of the header. Returns the offset at which they end, or 0 after a
  /// fault.
  result<std::uint64_t> header(std::uint64_t end) {
    end_ = end;
    std::uint64_t offset = preamble_size;
    // A header may be empty, and then the loop ends at once.
    while (offset != 0 && left(offset) >= frame_header_size) {
      // A frame with a type of a later phase ends the header. Other bytes are left to
      // step(), which notes what is wrong with them.
      WEIR_TRY(const bytes_view start, bytes_at(offset, frame_header_size));
      if (starts_with(start, frame_magic) &&
          phase_of(load_be<std::uint16_t>(start.data() + 2)) > 0) {
        break;
      }
      WEIR_TRY(offset, step(offset));
    }
    return offset;
  }

 private:
  // Returns bytes of the message, by their offset in it.
  result<bytes_view> bytes_at(std::uint64_t offset, std::uint64_t count) {
    return pieces_.read(layout_.span.offset + offset, count);
  }
  // Returns the bytes up to the end. Every offset of the walk is at most `end_`.
  std::uint64_t left(std::uint64_t offset) const { return end_ - offset; }

  /// Takes the frame at `offset` and returns the offset of the next one, or 0 after a
  /// fault. At the postamble of a stream the walk is complete and the result is `offset`.
  result<std::uint64_t> step(std::uint64_t offset) {
    if (left(offset) < frame_header_size) {
      issues_.fail("truncated_frame_header", errc::torn, offset,
                   fmt::format("cannot read frame header: expected {} bytes, found {}",
                               frame_header_size, left(offset)));
      return std::uint64_t{0};
    }
    // The first two bytes tell a frame from anything else.
    WEIR_TRY(const bytes_view header, bytes_at(offset, frame_header_size));
    if (!starts_with(header, frame_magic)) {
      WEIR_TRY(layout_.complete, postamble_at(offset));
      if (!layout_.complete) {
        issues_.fail("invalid_frame_header", errc::corrupt, offset,
                     "cannot read frame: expected \"FR\", found other bytes");
      }
      return layout_.complete ? offset : 0;
    }
    // Type, version, flags, offset, length and digest; the digest is at the end.
    frame_info frame{load_be<std::uint16_t>(header.data() + 2),
                     load_be<std::uint16_t>(header.data() + 4),
                     load_be<std::uint16_t>(header.data() + 6),
                     offset,
                     load_be<std::uint64_t>(header.data() + 8),
                     0};
    WEIR_TRY(const bool good, take(frame));
    if (!good) {
      return std::uint64_t{0};
    }
    return after(offset + frame.length);
  }

  /// Checks type, length and end marker of a frame and adds it to the layout. The length
  /// is checked before anything at the end of the frame is read.
  result<bool> take(frame_info& frame) {
    if (phase_of(frame.type) < 0) {
      // Type 4 has its own words, since files of version 2 exist.
      issues_.fail(
          "invalid_frame_header", errc::corrupt, frame.offset,
          fmt::format("cannot read frame: expected a type of version 3, found {}{}",
                      frame.type, frame.type == 4 ? ", retired with version 2" : ""));
      return false;
    }
    // Frames of objects have a longer tail.
    const std::uint64_t tail = tail_size(frame.type);
    // A frame has at least a header and a tail.
    if (frame.length < frame_header_size + tail) {
      issues_.fail(
          "frame_too_small", errc::corrupt, frame.offset,
          fmt::format("cannot read {} frame: expected at least {} bytes, found {}",
                      frame_type_name(frame.type), frame_header_size + tail,
                      frame.length));
      return false;
    }
    // Both comparisons are written so that no sum can overflow: the length comes from the
    // file and may be any number.
    if (frame.length > furthest - frame.offset) {
      issues_.fail("frame_length_overflow", errc::corrupt, frame.offset,
                   fmt::format("cannot read {} frame: expected an end that 64 bits can "
                               "count, found {} bytes",
                               frame_type_name(frame.type), frame.length));
      return false;
    }
    if (frame.length > left(frame.offset)) {
      issues_.fail(
          "frame_exceeds_message", errc::torn, frame.offset,
          fmt::format("cannot read {} frame: expected at most {} bytes, found {}",
                      frame_type_name(frame.type), left(frame.offset), frame.length));
      return false;
    }
    // The tail is read once for both: the end marker, and the descriptor offset of an
    // object.
    WEIR_TRY(const bytes_view end, bytes_at(frame.offset + frame.length - tail, tail));
    const bytes_view slot = end.last(frame_tail_size);
    if (!starts_with(slot.subspan(8), frame_end_magic)) {
      issues_.fail(
          "missing_end_marker", errc::corrupt, frame.offset + frame.length - 4,
          fmt::format("cannot read {} frame: expected \"ENDF\" at its end, found other "
                      "bytes",
                      frame_type_name(frame.type)));
      return false;
    }
    // The digest stands in front of the end marker.
    frame.digest = load_be<std::uint64_t>(slot.data());
    // In the layout even if its descriptor is wrong, so that it is counted.
    layout_.frames.push_back(frame);
    if (frame.type == frame_type::object) {
      take_descriptor_offset(frame, load_be<std::uint64_t>(end.data()));
    }
    return true;
  }

  /// Keeps the offset of a descriptor, and notes one that cannot be right. The walk goes
  /// on, because the frame itself is sound.
  void take_descriptor_offset(const frame_info& frame, std::uint64_t offset) {
    // One entry for each object, so that both lists stay parallel.
    layout_.descriptor_offsets.push_back(offset);
    const bool after = descriptor_last(frame);
    // A descriptor in front begins directly behind the header of the frame.
    const bool good =
        after ? offset >= frame_header_size && offset < frame.length - object_tail_size
              : offset == frame_header_size;
    if (!good) {
      issues_.add(
          {{"cbor_offset_invalid", validation_level::structure, issue_severity::error,
            layout_.descriptor_offsets.size() - 1, frame.offset,
            fmt::format("cannot find descriptor: expected an offset {}, found {}",
                        after ? "inside the frame" : "of 16", offset)},
           errc::corrupt});
    }
  }

  /// Returns the offset of the next frame: behind zeros up to the next multiple of 8, or
  /// at once if a frame or the postamble follows without padding.
  result<std::uint64_t> after(std::uint64_t offset) {
    const std::uint64_t aligned = align_up(offset, frame_alignment);
    // At the end of the message there is no padding.
    if (offset == aligned || (!stream_ && offset == end_)) {
      return offset;
    }
    // A frame that begins here is not padded.
    if (left(offset) >= 2) {
      WEIR_TRY(const bytes_view next, bytes_at(offset, 2));
      if (starts_with(next, frame_magic)) {
        return offset;
      }
    }
    // Nor is a postamble that follows at once.
    WEIR_TRY(const bool ended, postamble_at(offset));
    if (ended) {
      return offset;
    }
    // The padding would reach behind the bytes that there are.
    if (aligned > end_) {
      issues_.fail(
          "truncated_frame_header", errc::torn, offset,
          "cannot read frame: expected one or the end of the message, found neither");
      return std::uint64_t{0};
    }
    WEIR_TRY(const bytes_view padding, bytes_at(offset, aligned - offset));
    // Padding that is not zero is suspicious, but the frames can be read.
    if (std::any_of(padding.begin(), padding.end(),
                    [](std::byte b) { return b != std::byte{}; })) {
      issues_.warn("non_zero_padding", offset,
                   "padding between frames: expected zeros, found others");
    }
    return aligned;
  }

  /// Returns true if the postamble of a stream begins at `offset`.
  result<bool> postamble_at(std::uint64_t offset) {
    // Other messages know their end, so nothing is looked for.
    if (!stream_ || left(offset) < postamble_size) {
      return false;
    }
    WEIR_TRY(const bytes_view bytes, bytes_at(offset, postamble_size));
    // A stream has no other end than this. The magic alone could stand here by chance, so
    // the two numbers have to make sense at this place as well.
    const auto first_footer = load_be<std::uint64_t>(bytes.data());
    const auto total = load_be<std::uint64_t>(bytes.data() + 8);
    return starts_with(bytes.subspan(16), end_magic) && first_footer <= offset &&
           (total == 0 || total == offset + postamble_size);
  }

  piece_reader& pieces_;
  message_layout& layout_;
  issue_list& issues_;
  std::uint64_t end_ = 0;  ///< start of the postamble, or end of the bytes
  bool stream_ = false;    ///< the message has no length in its preamble
};

/// Checks the order of header, objects and footer, that a preceder stands before its
/// object, and that no other frame occurs twice.
void check_order(const message_layout& layout, issue_list& issues) {
  // `phase` is the latest phase so far: 0 header, 1 objects, 2 footer.
  int phase = 0;
  std::array<bool, 10> seen{};
  const frame_info* preceder = nullptr;
  for (const frame_info& frame : layout.frames) {
    const auto name = frame_type_name(frame.type);
    // The frame before was a preceder, which must stand directly before its object.
    if (preceder != nullptr && frame.type != frame_type::object) {
      issues.fail(
          "preceder_not_followed_by_object", errc::corrupt, frame.offset,
          fmt::format("cannot use preceder: expected a data object after it, found {}",
                      name));
    }
    // A phase never goes back.
    if (phase_of(frame.type) < phase) {
      issues.fail(
          "frame_order_violation", errc::corrupt, frame.offset,
          fmt::format("cannot use {} frame: expected header, objects, footer in this "
                      "order, found it after a later part",
                      name));
    }
    phase = std::max(phase, phase_of(frame.type));
    // Objects and preceders may occur any number of times.
    if (phase_of(frame.type) != 1 && seen[frame.type]) {
      issues.fail("duplicate_frame", errc::corrupt, frame.offset,
                  fmt::format("cannot use {} frame: expected one, found another", name));
    }
    // Types are below ten, as other ones are not in a layout.
    seen[frame.type] = true;
    preceder = frame.type == frame_type::preceder ? &frame : nullptr;
  }
  // The message ends with a preceder.
  if (preceder != nullptr) {
    issues.fail("dangling_preceder", errc::corrupt, preceder->offset,
                "cannot use preceder: expected a data object after it, found none");
  }
}

/// Compares the flags of the preamble with the frames. A stream sets flags before its
/// frames exist, so a flag without its frame is a warning. A frame without its flag is
/// damage: one flipped bit in a type could turn a digest list into metadata.
void check_flags(const message_layout& layout, issue_list& issues) {
  // Bits of the frame types that were found.
  std::uint16_t found = 0;
  for (const frame_info& frame : layout.frames) {
    found = static_cast<std::uint16_t>(found | flag_of_frame(frame.type));
  }
  // Data objects have no flag.
  constexpr std::array<std::uint16_t, 7> announced{1, 2, 3, 5, 6, 7, 8};
  // Each of these types has a flag of its own.
  for (const std::uint16_t type : announced) {
    const std::uint16_t flag = flag_of_frame(type);
    if ((layout.head.flags & flag) != 0 && (found & flag) == 0) {
      // The flags stand at byte 10 of the preamble.
      issues.warn("flag_mismatch", 10,
                  fmt::format("preamble announces a {} frame: expected one, found none",
                              frame_type_name(type)));
    } else if ((layout.head.flags & flag) == 0 && (found & flag) != 0) {
      issues.fail(
          "flag_mismatch", errc::corrupt, 10,
          fmt::format("cannot use {} frame: expected a flag in the preamble, found none",
                      frame_type_name(type)));
    }
  }
}

/// Checks the offset in the postamble: it is that of the first footer frame, or of the
/// postamble itself if there is none.
void check_footer_offset(const message_layout& layout, issue_list& issues) {
  // The offsets count from the start of the message.
  const std::uint64_t end = layout.span.length - postamble_size;
  // Without a footer, the postamble itself.
  std::uint64_t expected = end;
  for (const frame_info& frame : layout.frames) {
    if (phase_of(frame.type) == 2) {
      expected = std::min(expected, frame.offset);
    }
  }
  const std::uint64_t stored = layout.tail.first_footer_offset;
  // Two codes: an offset that cannot be right, and one that is not.
  if (stored != expected) {
    issues.fail(stored < preamble_size || stored > end ? "footer_offset_out_of_range"
                                                       : "footer_offset_mismatch",
                errc::corrupt, end,
                fmt::format("cannot trust first footer offset: expected {}, found {}",
                            expected, stored));
  }
}

/// Returns the start of the postamble according to the length in the preamble, or 0 after
/// a fault.
result<std::uint64_t> announced_end(piece_reader& pieces, message_layout& layout,
                                    std::uint64_t limit, issue_list& issues) {
  const std::uint64_t total = layout.head.total_length;
  // The length stands at byte 16 of the preamble.
  if (total < smallest_message) {
    issues.fail(
        "total_length_too_small", errc::corrupt, 16,
        fmt::format("cannot read message: expected a length of at least {}, found {}",
                    smallest_message, total));
    return std::uint64_t{0};
  }
  if (total > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    issues.fail("total_length_overflow", errc::corrupt, 16,
                fmt::format("cannot read message: expected a length that an offset of a "
                            "file can be, found {}",
                            total));
    return std::uint64_t{0};
  }
  // Usually the file was cut.
  if (total > limit) {
    issues.fail(
        "total_length_exceeds_buffer", errc::torn, 16,
        fmt::format("cannot read message: expected {} bytes, found {}", total, limit));
    return std::uint64_t{0};
  }
  // The length is known to fit, so the postamble can be read.
  layout.span.length = total;
  const std::uint64_t end = total - postamble_size;
  WEIR_TRY(const bytes_view bytes, pieces.read(layout.span.offset + end, postamble_size));
  const auto parsed = parse_postamble(bytes);
  if (!parsed) {
    issues.fail("postamble_invalid", errc::corrupt, end, parsed.error().text());
    return std::uint64_t{0};
  }
  return end;
}

/// Reads the postamble and compares it with the preamble and the frames.
result<void> read_tail(piece_reader& pieces, message_layout& layout, issue_list& issues) {
  const std::uint64_t end = layout.span.length - postamble_size;
  WEIR_TRY(const bytes_view bytes, pieces.read(layout.span.offset + end, postamble_size));
  WEIR_TRY(layout.tail, parse_postamble(bytes));
  const std::uint64_t total = layout.head.total_length;
  // Either length may be absent, as a stream is written before its length is known.
  if (total != 0 && layout.tail.total_length != 0 && layout.tail.total_length != total) {
    issues.fail(
        "postamble_invalid", errc::corrupt, end + 8,
        fmt::format("cannot trust message length: expected {} as in the preamble, found "
                    "{} in the postamble",
                    total, layout.tail.total_length));
  }
  check_footer_offset(layout, issues);
  return {};
}

}  // namespace

/// Checks in the order in which later checks rely on earlier ones. Where a fault makes
/// the rest meaningless, the layout is returned as it is so far.
result<message_layout> read_layout(piece_reader& pieces, message_span within,
                                   issue_list& issues) {
  message_layout layout;
  // The length is set when it is known.
  layout.span = {within.offset, 0};
  // Nothing shorter can hold preamble and postamble.
  if (within.length < smallest_message) {
    issues.fail("buffer_too_short", errc::torn, 0,
                fmt::format("cannot read message: expected at least {} bytes, found {}",
                            smallest_message, within.length));
    return layout;
  }
  // The magic and the version decide whether the rest can be understood at all.
  WEIR_TRY(const bytes_view start, pieces.read(within.offset, preamble_size));
  const auto head = parse_preamble(start);
  if (!head) {
    // Bytes that are no message, and messages of another version, have codes of their
    // own.
    const bool magic = head.error().code() == errc::corrupt;
    issues.fail(magic ? "invalid_magic" : "preamble_parse_failed", head.error().code(), 0,
                head.error().text());
    return layout;
  }
  layout.head = *head;
  const bool stream = head->total_length == 0;
  // A stream may use all bytes that there are.
  std::uint64_t end = within.length;
  if (!stream) {
    // For other messages, the end is the start of the postamble.
    WEIR_TRY(end, announced_end(pieces, layout, within.length, issues));
    if (end == 0) {
      return layout;
    }
  }
  // The order is checked even if the walk has ended early; the postamble and the flags
  // only when all frames are known.
  WEIR_CHECK(frame_walk(pieces, layout, issues).run(end, stream));
  check_order(layout, issues);
  if (layout.complete) {
    WEIR_CHECK(read_tail(pieces, layout, issues));
    check_flags(layout, issues);
    // Every message has metadata, even without objects.
    if (std::none_of(layout.frames.begin(), layout.frames.end(),
                     [](const frame_info& f) { return is_metadata_frame(f.type); })) {
      issues.fail("no_metadata_frame", errc::corrupt, preamble_size,
                  "cannot read message: expected a metadata frame, found none");
    }
  }
  return layout;
}

/// `layout` has only the preamble; order and flags are for the caller to check.
result<std::optional<std::uint64_t>> walk_header(piece_reader& pieces,
                                                 message_layout& layout,
                                                 std::uint64_t end, issue_list& issues) {
  WEIR_TRY(const std::uint64_t offset, frame_walk(pieces, layout, issues).header(end));
  return offset == 0 ? std::nullopt : std::optional(offset);
}

/// The frames are not checked against the rest of the message.
result<void> walk_frames(piece_reader& pieces, message_layout& layout,
                         std::uint64_t begin, std::uint64_t end, issue_list& issues) {
  // The frames of a part are complete if the walk reaches its end.
  layout.complete = false;
  WEIR_TRY(const std::uint64_t offset,
           frame_walk(pieces, layout, issues).fill(begin, end));
  layout.complete = offset != 0;
  return {};
}

/// The issues are dropped: a stream either leads to a postamble or it does not.
result<walked_stream> walk_stream(piece_reader& pieces, message_span within) {
  message_layout layout;
  layout.span = {within.offset, 0};
  issue_list issues;
  WEIR_CHECK(frame_walk(pieces, layout, issues).run(within.length, true));
  // Zero means that there is no whole stream.
  return walked_stream{layout.complete ? layout.span.length : 0, layout.frames.size()};
}

}  // namespace weir::formats
