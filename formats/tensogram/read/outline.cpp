// SPDX-License-Identifier: Apache-2.0
/// @file
/// The outline of a message, and readers of single objects.
///
/// An outline reads the two ends of a message: the frames of the header and of the
/// footer, among which is the index. For a remote file that is two or three requests,
/// however large the message is. An object is then opened by reading only its own frame,
/// whose place the index gives.
///
/// The reader of a whole message verifies everything; an outline trusts the index as far
/// as it can be checked without reading the objects: the objects must fill the message
/// without overlaps and without gaps that could hide another object. Damage inside an
/// object is found when that object is opened.
#include "tensogram/read/outline.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "tensogram/read/reader_state.hpp"
#include "tensogram/wire/metadata.hpp"
#include "weir/base/hash.hpp"
#include "weir/formats/tensogram_outline.hpp"

namespace weir::formats {

/// State of an outline.
struct message_outline::state {
  std::shared_ptr<const byte_source> source;
  read_options options;
  message_layout layout;   ///< frames of the header and of the footer only
  std::uint64_t body = 0;  ///< offset at which the header ends
  message_metadata metadata;
  object_index index;

  /// Returns the range between object `i` and the object or header before it, which holds
  /// padding or a preceder.
  /// Both ends are offsets in the message. The outline has checked that they do not
  /// cross.
  byte_range gap(std::size_t i) const {
    const std::uint64_t from =
        i == 0 ? body : index.offsets[i - 1] + index.lengths[i - 1];
    return {from, index.offsets[i] - from};
  }
};

namespace {

/// Largest frame that is fetched as a whole, in bytes: about the amount that a server
/// sends in one round trip.
constexpr std::uint64_t small_frame = 1 << 20;
/// Bytes that are fetched first from the end of a larger frame. Most descriptors fit.
constexpr std::uint64_t descriptor_guess = 4 << 10;
/// Smallest frame that can be a preceder.
constexpr std::uint64_t smallest_preceder = frame_header_size + frame_tail_size;
/// Smallest frame of a data object.
constexpr std::uint64_t smallest_object = frame_header_size + object_tail_size;

/// Returns the checks of frames that the options of a reader imply.
/// Digests of old writers are accepted where the digest is not required.
content_checks checks_of(const read_options& options) {
  return {options.hashes != hash_check::none,
          options.legacy_hashes || options.hashes == hash_check::present, false};
}

/// Reads header and footer of a message and checks that its index is complete.
class outline_reader {
 public:
  outline_reader(const byte_source& source, message_span span,
                 const content_checks& checks)
      : source_(source), pieces_(source), checks_(checks) {
    layout.span = span;
  }

  message_layout layout;
  std::uint64_t body = 0;
  message_metadata metadata;
  object_index index;

  /// Reads the ends of the message, walks their frames, and takes metadata and index from
  /// them. If a message has metadata in header and footer, those of the footer count.
  /// Frames of the footer come later in the list and so replace those of the header.
  result<void> run() {
    WEIR_CHECK(read_ends());
    WEIR_CHECK(walk());
    bool found_metadata = false;
    bool found_index = false;
    for (const frame_info& frame : layout.frames) {
      if (is_metadata_frame(frame.type)) {
        WEIR_TRY(cbor_value value, read_cbor(frame));
        WEIR_TRY(metadata, located(parse_metadata(std::move(value)), frame.offset));
        found_metadata = true;
      } else if (frame.type == frame_type::header_index ||
                 frame.type == frame_type::footer_index) {
        WEIR_TRY(const cbor_value value, read_cbor(frame));
        WEIR_TRY(index, located(parse_index(value), frame.offset));
        found_index = true;
      }
    }
    if (!found_metadata) {
      return corrupt(preamble_size,
                     "cannot read message: expected a metadata frame, found none");
    }
    // A message may lack an index; its objects are then found by walking over the frames.
    if (!found_index) {
      WEIR_CHECK(index_by_walking());
    }
    WEIR_CHECK(check_index());
    return complete_base();
  }

 private:
  // Returns an error at an offset of the message.
  error corrupt(std::uint64_t offset, std::string text) const {
    return error(errc::corrupt, std::move(text))
        .located(place(source_, layout.span.offset + offset));
  }
  /// Gives an error a place unless it has one.
  template <class T>
  result<T> located(result<T> value, std::uint64_t offset) const {
    if (!value && value.error().location().empty()) {
      return std::move(value).error().located(
          place(source_, layout.span.offset + offset));
    }
    return value;
  }
  // Returns the first error of the walk as an error of the reader.
  result<void> first_error() const {
    if (const found_issue* found = issues_.first_error()) {
      return as_error(*found, source_, layout.span.offset);
    }
    return {};
  }

  /// Reads preamble and postamble, whose ranges are requested together. A message may be
  /// shorter than its span, so the postamble of a shorter one is read separately.
  result<void> read_ends() {
    if (layout.span.length < smallest_message) {
      return error(
                 errc::torn,
                 fmt::format("cannot read message: expected at least {} bytes, found {}",
                             smallest_message, layout.span.length))
          .located(place(source_, layout.span.offset));
    }
    const std::uint64_t start = layout.span.offset;
    // Both ends are requested at once, since each request to a server costs a round trip.
    WEIR_CHECK(source_.prefetch(std::vector<byte_range>{
        {start, preamble_size},
        {start + layout.span.length - postamble_size, postamble_size}}));
    WEIR_TRY(const bytes_view head, pieces_.read(start, preamble_size));
    WEIR_TRY(layout.head, located(parse_preamble(head), 0));
    const std::uint64_t total = layout.head.total_length;
    if (total != 0 && (total < smallest_message || total > layout.span.length)) {
      return corrupt(16, fmt::format("cannot read message: expected a length from {} to "
                                     "{}, found {}",
                                     smallest_message, layout.span.length, total));
    }
    // The span is an upper bound: the scan gives exact spans, other callers need not.
    layout.span.length = total != 0 ? total : layout.span.length;
    const std::uint64_t end = layout.span.length - postamble_size;
    WEIR_TRY(const bytes_view tail, pieces_.read(start + end, postamble_size));
    WEIR_TRY(layout.tail, located(parse_postamble(tail), end));
    const std::uint64_t footer = layout.tail.first_footer_offset;
    if (footer < preamble_size || footer > end) {
      return corrupt(end, fmt::format("cannot find footer: expected an offset from {} to "
                                      "{}, found {}",
                                      preamble_size, end, footer));
    }
    return {};
  }

  /// Walks the frames of the header and of the footer. The first footer offset of the
  /// postamble says where the footer begins.
  result<void> walk() {
    const std::uint64_t footer = layout.tail.first_footer_offset;
    WEIR_TRY(const auto found, walk_header(pieces_, layout, footer, issues_));
    WEIR_CHECK(first_error());
    // A message without frames in its header has its objects behind the preamble.
    body = found.value_or(preamble_size);
    const std::size_t in_header = layout.frames.size();
    WEIR_CHECK(walk_frames(pieces_, layout, footer, layout.span.length - postamble_size,
                           issues_));
    WEIR_CHECK(first_error());
    for (std::size_t f = 0; f < layout.frames.size(); ++f) {
      const frame_info& frame = layout.frames[f];
      if (f >= in_header && phase_of(frame.type) != 2) {
        return corrupt(frame.offset,
                       fmt::format("cannot use {} frame: expected a frame of the footer "
                                   "behind the first footer offset",
                                   frame_type_name(frame.type)));
      }
      // As in check_flags() of layout.cpp, a frame without its flag is damage.
      if ((layout.head.flags & flag_of_frame(frame.type)) == 0) {
        return corrupt(10, fmt::format("cannot use {} frame: expected a flag in the "
                                       "preamble, found none",
                                       frame_type_name(frame.type)));
      }
    }
    return {};
  }

  /// Verifies and decodes the CBOR of a frame.
  result<cbor_value> read_cbor(const frame_info& frame) {
    // The digest is verified before the bytes are decoded.
    const frame_body content = body_of(frame);
    WEIR_TRY(const bytes_view bytes,
             pieces_.read(layout.span.offset + content.offset, content.length));
    if (checks_.digests && has_digest(frame, layout.head, checks_.legacy) &&
        xxh3_64(bytes) != frame.digest) {
      return error(errc::hash_mismatch,
                   fmt::format("cannot trust {}: expected digest {}, found {}",
                               frame_type_name(frame.type), hex64(frame.digest),
                               hex64(xxh3_64(bytes))))
          .located(place(source_, layout.span.offset + frame.offset));
    }
    WEIR_TRY(cbor_item item, located(decode_cbor(bytes), content.offset));
    return std::move(item.value);
  }

  /// Finds the objects by walking over all frames if no frame lists them.
  result<void> index_by_walking() {
    // The walk reads the ends of all frames, which costs requests, but finds every
    // object.
    message_layout whole;
    WEIR_TRY(whole, read_layout(pieces_, layout.span, issues_));
    WEIR_CHECK(first_error());
    for (const frame_info& frame : whole.frames) {
      if (frame.type == frame_type::object) {
        index.offsets.push_back(frame.offset);
        index.lengths.push_back(frame.length);
      }
    }
    return {};
  }

  /// Checks that the objects fill the message between header and footer, apart from
  /// padding and preceders. An index that omits an object would otherwise hide it.
  result<void> check_index() const {
    const std::uint64_t end = layout.tail.first_footer_offset;
    // `end_of_last` is the offset behind the last object, or the end of the header.
    std::uint64_t end_of_last = body;
    for (std::size_t i = 0; i < index.offsets.size(); ++i) {
      const std::uint64_t offset = index.offsets[i];
      const std::uint64_t length = index.lengths[i];
      if (offset < end_of_last || offset > end || length < smallest_object ||
          length > end - offset) {
        return corrupt(body, fmt::format("cannot trust index: expected object {} from {} "
                                         "to {}, found {} bytes at {}",
                                         i, end_of_last, end, length, offset));
      }
      WEIR_CHECK(check_gap(offset - end_of_last, end_of_last, true));
      end_of_last = offset + length;
    }
    return check_gap(end - end_of_last, end_of_last, false);
  }
  /// Checks a gap between two objects, or before the footer, where no preceder can be.
  result<void> check_gap(std::uint64_t gap, std::uint64_t end_of_last,
                         bool before_object) const {
    // A gap of less than 8 bytes is padding. A larger one must have room for a preceder,
    // and the preamble must announce preceders.
    const bool preceder = before_object && gap >= smallest_preceder &&
                          (layout.head.flags & preamble_flag::preceder) != 0;
    if (gap < frame_alignment || preceder) {
      return {};
    }
    return corrupt(end_of_last,
                   fmt::format("cannot trust index: expected its objects to fill the "
                               "message, found {} bytes that belong to none",
                               gap));
  }

  /// Extends the base entries to one per object.
  /// An object without a base entry has an empty one, as in `content_reader`.
  result<void> complete_base() {
    if (metadata.base.size() > index.offsets.size()) {
      return corrupt(preamble_size,
                     fmt::format("cannot use metadata: expected at most {} base entries, "
                                 "found {}",
                                 index.offsets.size(), metadata.base.size()));
    }
    metadata.base.resize(index.offsets.size());
    return {};
  }

  const byte_source& source_;  ///< of the message
  piece_reader pieces_;        ///< for small reads
  content_checks checks_;      ///< of frames
  issue_list issues_;          ///< faults of the walk
};

}  // namespace

/// Opens a message by its header, footer and index alone. Payloads of objects are not
/// read, which saves most of the requests to a remote server.
result<message_outline> message_outline::open(std::shared_ptr<const byte_source> source,
                                              message_span span,
                                              const read_options& options) {
  outline_reader reader(*source, span, checks_of(options));
  WEIR_CHECK(reader.run());
  auto s = std::make_shared<state>();
  s->source = std::move(source);
  s->options = options;
  s->layout = std::move(reader.layout);
  s->body = reader.body;
  s->metadata = std::move(reader.metadata);
  s->index = std::move(reader.index);
  return message_outline(std::move(s));
}

const message_metadata& message_outline::metadata() const noexcept {
  return state_->metadata;
}
std::size_t message_outline::object_count() const noexcept {
  return state_->index.offsets.size();
}
message_span message_outline::span() const noexcept {
  return state_->layout.span;
}

/// Returns the first object with this name in its metadata.
/// Names of preceders are not known to an outline, because they stand in front of the
/// objects.
std::optional<std::size_t> message_outline::find(std::string_view name) const {
  for (std::size_t i = 0; i < object_count(); ++i) {
    const cbor_value* value = state_->metadata.base[i].find("name");
    if (value != nullptr && value->text() != nullptr && *value->text() == name) {
      return i;
    }
  }
  return std::nullopt;
}

/// Returns the range of an object's frame in the source.
byte_range message_outline::frame(std::size_t i) const {
  WEIR_EXPECT(i < object_count());
  return {state_->layout.span.offset + state_->index.offsets[i],
          state_->index.lengths[i]};
}

namespace {

/// Returns the ranges that are read to open an object: the whole frame with its preceder
/// if they are small, and otherwise their two ends, without the payload.
std::vector<byte_range> ends_of(byte_range frame, std::uint64_t before) {
  const byte_range whole{frame.offset - before, frame.length + before};
  if (whole.length <= small_frame) {
    return {whole};
  }
  // The descriptor is at the end of the frame; a longer one is read when it is needed.
  const std::uint64_t tail = std::min(frame.length, descriptor_guess);
  return {{whole.offset, before + frame_header_size},
          {frame.offset + frame.length - tail, tail}};
}

/// Reads the keys of the preceder that fills `gap`. Padding may precede it.
result<cbor_map> read_preceder(piece_reader& pieces, const message_layout& message,
                               byte_range gap, const content_checks& checks) {
  message_layout layout;
  layout.span = message.span;
  layout.head = message.head;
  WEIR_TRY(const bytes_view first,
           pieces.read(message.span.offset + gap.offset, frame_magic.size()));
  // Padding may begin the gap: the preceder then begins at the next multiple of 8.
  const std::uint64_t start = starts_with(first, frame_magic)
                                  ? gap.offset
                                  : align_up(gap.offset, frame_alignment);
  issue_list issues;
  WEIR_CHECK(walk_frames(pieces, layout, start, gap.offset + gap.length, issues));
  const std::string where = place(pieces.source(), message.span.offset + start);
  if (const found_issue* found = issues.first_error()) {
    return as_error(*found, pieces.source(), message.span.offset);
  }
  if (layout.frames.size() != 1 || layout.frames[0].type != frame_type::preceder) {
    return error(errc::corrupt,
                 "cannot trust index: expected a preceder in front of the object, found "
                 "other frames")
        .located(where);
  }
  const frame_body body = body_of(layout.frames[0]);
  WEIR_TRY(const bytes_view bytes,
           pieces.read(message.span.offset + body.offset, body.length));
  if (checks.digests && has_digest(layout.frames[0], message.head, checks.legacy) &&
      xxh3_64(bytes) != layout.frames[0].digest) {
    return error(errc::hash_mismatch,
                 fmt::format("cannot trust preceder: expected digest {}, found {}",
                             hex64(layout.frames[0].digest), hex64(xxh3_64(bytes))))
        .located(where);
  }
  WEIR_TRY(cbor_item item, decode_cbor(bytes));
  WEIR_TRY(message_metadata metadata, parse_metadata(std::move(item.value)));
  if (metadata.base.size() != 1) {
    return error(errc::corrupt,
                 fmt::format("cannot use preceder: expected one base entry, found {}",
                             metadata.base.size()))
        .located(where);
  }
  return std::move(metadata.base.front());
}

}  // namespace

/// The second form of this function reads from another source, such as one with a time
/// limit.
result<message_reader> message_outline::object(std::size_t i) const {
  return object(i, state_->source);
}

/// Reads one object. Its frame, and the preceder in the gap before it, are requested
/// together. The frame is checked like one of a whole message, and errors carry the
/// object's number in the message.
result<message_reader> message_outline::object(
    std::size_t i, std::shared_ptr<const byte_source> source) const {
  const message_span span = state_->layout.span;
  if (i >= object_count()) {
    return error(errc::not_found,
                 fmt::format("cannot find object {}: expected a number below {}, found "
                             "it beyond",
                             i, object_count()))
        .located(place(*source, span.offset));
  }
  const byte_range gap = state_->gap(i);
  const bool preceded = gap.length >= smallest_preceder;
  WEIR_CHECK(source->prefetch(ends_of(frame(i), preceded ? gap.length : 0)));
  auto s = std::make_unique<message_reader::state>();
  s->source = std::move(source);
  s->options = state_->options;
  s->first_object = i;
  s->layout.span = span;
  s->layout.head = state_->layout.head;
  s->layout.tail = state_->layout.tail;
  piece_reader pieces(*s->source);
  const content_checks checks = checks_of(state_->options);
  const std::uint64_t begin = state_->index.offsets[i];
  const std::uint64_t end = begin + state_->index.lengths[i];
  issue_list issues;
  WEIR_CHECK(walk_frames(pieces, s->layout, begin, end, issues));
  // The index may name a place where another frame stands.
  if (issues.first_error() == nullptr && s->layout.descriptor_offsets.size() != 1) {
    issues.fail("index_offset_mismatch", errc::corrupt, begin,
                "cannot trust index: expected a data object, found another frame");
  }
  if (issues.first_error() == nullptr) {
    WEIR_TRY(s->contents, read_contents(pieces, s->layout, checks, issues));
  }
  // Within its reader, the object has the number 0. Messages name its number in the
  // message.
  if (const found_issue* found = issues.first_error()) {
    found_issue numbered = *found;
    if (numbered.issue.object) {
      numbered.issue.object = i;
    }
    return as_error(numbered, *s->source, span.offset);
  }
  const message_metadata& all = state_->metadata;
  // Only the base entry of this object belongs to its reader.
  s->contents.metadata = {{all.base[i]}, all.extra, all.reserved};
  if (preceded) {
    WEIR_TRY(const cbor_map keys, read_preceder(pieces, state_->layout, gap, checks));
    overlay(s->contents.metadata.base[0], keys);
  }
  take_szip_mark(s->contents.metadata.base[0], s->contents.objects[0].descriptor);
  return message_reader(std::move(s));
}

/// Requests the two ends of every frame in one call, instead of one request per frame.
result<void> prefetch_frames(const std::shared_ptr<const byte_source>& source,
                             message_span span) {
  // Options do not matter for the places of the frames.
  const auto outline = message_outline::open(source, span);
  if (!outline) {
    // The reader finds a fault of the message itself and words it better. Only a failure
    // of the source is returned.
    return source_failed(outline.error()) ? result<void>(outline.error())
                                          : result<void>();
  }
  std::vector<byte_range> ranges;
  for (std::size_t i = 0; i < outline->object_count(); ++i) {
    const byte_range frame = outline->frame(i);
    // The preceders lie between the objects and are read one by one, if there are any.
    const std::uint64_t tail = std::min(frame.length, descriptor_guess);
    ranges.push_back({frame.offset, frame_header_size});
    ranges.push_back({frame.offset + frame.length - tail, tail});
  }
  return source->prefetch(ranges);
}

}  // namespace weir::formats
