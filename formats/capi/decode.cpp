// SPDX-License-Identifier: Apache-2.0
/// @file
/// Decoding of a message in a buffer, and the functions on which decoding from files
/// rests.
///
/// Every decoding ends in a handle that owns all its data (`tgm_message_t`). A failure is
/// translated by `cannot_read`, which examines the message again to find the code that
/// callers of the reference expect. A place says where the message is and whether reading
/// is costly; only remote places are read by their outline.
#include "capi/decode.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "weir/base/hash.hpp"
#include "weir/formats/tensogram_outline.hpp"

namespace weir::capi {

using namespace weir::formats;  // NOLINT: this file translates between the two

namespace {

/// Type of the frame of a data object (docs/formats/tensogram.md).
constexpr std::uint16_t object_frame = 9;

/// The digests of the object frames. A zero means that a frame has none, as in the
/// reference; writers before 0.21 did not set the flag that says so.
std::vector<std::uint64_t> digests_of(const message_reader& reader) {
  std::vector<std::uint64_t> out;
  for (const frame_info& frame : reader.frames()) {
    if (frame.type == object_frame) {
      out.push_back(frame.digest);
    }
  }
  return out;
}

/// Returns the description of object `i`, without its elements.
decoded_object described(const message_reader& reader, std::size_t i,
                         std::uint64_t digest) {
  const object_descriptor& d = reader.descriptor(i);
  decoded_object out;
  // The names of types are in a table of literals.
  out.dtype = info_of(d.type).tensogram.data();  // a literal, which ends in a zero
  out.order = d.order == byte_order::big ? "big" : "little";
  out.type = d.object_type;
  out.encoding = d.encoding;
  out.filter = d.filter;
  out.compression = d.compression;
  // The texts are made here, because accessors return their addresses.
  out.digest = digest != 0 ? hex64(digest) : "";
  out.shape.assign(d.shape.begin(), d.shape.end());
  out.strides = d.strides;
  return out;
}

/// Decodes all objects of a message. Objects are decoded together on several threads if
/// the caller asked for threads or cannot stop the call. Otherwise they are decoded one
/// after the other, so that a request to stop takes effect between two of them.
result<message_handle> decode_objects(const message_reader& reader, unsigned threads,
                                      const std::stop_token& stop) {
  auto out = std::make_unique<tgm_message_t>();
  // The metadata are copied: the handle outlives the reader.
  out->metadata = std::make_shared<const message_metadata>(reader.metadata());
  const auto digests = digests_of(reader);
  for (std::size_t i = 0; i < reader.object_count(); ++i) {
    out->objects.push_back(described(reader, i, digests[i]));
  }
  // A task can be stopped, other calls cannot.
  if (!stop.stop_possible() || threads > 0) {
    WEIR_TRY(std::vector<byte_vector> all, reader.decode_all());
    for (std::size_t i = 0; i < all.size(); ++i) {
      out->objects[i].elements = std::move(all[i]);
    }
    return out;
  }
  for (std::size_t i = 0; i < out->objects.size(); ++i) {
    if (stop.stop_requested()) {
      return error(errc::interrupted,
                   "cannot decode the message: expected to be let finish, found the task "
                   "ended");
    }
    WEIR_TRY(out->objects[i].elements, reader.decode(i));
  }
  return out;
}

/// Returns the failure of reading a message from its place.
failure cannot_read(const error& e, const message_place& message) {
  return capi::cannot_read(e, message.source, message.span);
}

/// A reader that can decode the wanted object, and the object's number in that reader. A
/// reader made from an outline holds that object alone, so its number there is 0.
struct object_reader {
  message_reader reader;
  std::size_t number;
  std::optional<message_outline> outline;  ///< of the message, if it was read

  /// Returns the metadata of the whole message. An outline does not read the preceder
  /// frames of objects; the keys of this object's preceder come from its own reader.
  message_metadata metadata(std::size_t object) const {
    // The base entries of an outline lack the keys of preceders.
    message_metadata out = outline ? outline->metadata() : reader.metadata();
    if (outline) {
      out.base[object] = reader.metadata(number);
    }
    return out;
  }
};

/// Opens object `object` of a message. From a costly source only the frames of that
/// object are read; otherwise all frames, without the payloads.
result<object_reader> open_object(const message_place& message, std::size_t object,
                                  const read_options& options) {
  if (message.by_outline) {
    // Two requests to a server, or three: the ends of the message and those of the
    // object.
    WEIR_TRY(message_outline outline,
             message_outline::open(message.source, message.span, options));
    WEIR_TRY(message_reader reader, outline.object(object));
    return object_reader{std::move(reader), 0, std::move(outline)};
  }
  WEIR_TRY(message_reader reader,
           message_reader::open(message.source, message.span, options));
  // The outline checks the number itself.
  if (object >= reader.object_count()) {
    return error(errc::not_found,
                 fmt::format("cannot decode object {}: expected an index below {}, "
                             "found it beyond",
                             object, reader.object_count()));
  }
  return object_reader{std::move(reader), object, std::nullopt};
}

/// Makes the handle of a message that has one decoded object.
message_handle handle_of(const message_reader& reader, std::size_t number,
                         std::uint64_t digest, byte_vector elements,
                         std::shared_ptr<const message_metadata> metadata) {
  auto out = std::make_unique<tgm_message_t>();
  out->metadata = std::move(metadata);
  out->objects.push_back(described(reader, number, digest));
  out->objects.back().elements = std::move(elements);
  return out;
}

/// Returns whether an object is compressed with szip, unfiltered, and lacks the offsets
/// of its blocks. The reference refuses ranges of such objects with
/// TGM_ERROR_COMPRESSION.
bool lacks_offsets(const object_descriptor& d) {
  // Ranges of filtered objects are refused for another reason.
  return d.compression == "szip" && d.filter == "none" &&
         d.parameters.find("szip_block_offsets") == nullptr;
}

/// Checks that the elements are within the object, without a sum that could overflow.
outcome<void> check_range(const object_descriptor& d, std::uint64_t first,
                          std::uint64_t count) {
  const auto all = static_cast<std::uint64_t>(element_count(d.shape));
  if (first > all || count > all - first) {
    return failure(
        TGM_ERROR_ENCODING,
        fmt::format("cannot decode range: expected elements below {}, found {} "
                    "from {} on",
                    all, count, first));
  }
  return {};
}

}  // namespace

/// The view must outlive the place.
message_place place_of(bytes_view bytes) {
  return {std::make_shared<memory_byte_source>(bytes), {0, bytes.size()}};
}

/// Opens and decodes; both failures get their code by the same examination of the
/// message.
outcome<message_handle> decode_message(bytes_view bytes, const read_options& options,
                                       const std::stop_token& stop) {
  // One lambda, so that both steps have one error to translate.
  auto decoded = [&]() -> result<message_handle> {
    WEIR_TRY(const message_reader reader, message_reader::open(bytes, options));
    return decode_objects(reader, options.threads, stop);
  }();
  if (!decoded) {
    return capi::cannot_read(decoded.error(), bytes);
  }
  return std::move(*decoded);
}

open_message::open_message(message_place place, message_reader reader)
    : place_(std::move(place)),
      reader_(std::move(reader)),
      metadata_(std::make_shared<const message_metadata>(reader_.metadata())),
      digests_(digests_of(reader_)) {}

/// Opens the message with all its frames. An error gets the code of the C interface that
/// fits the cause, for which the place of the message is needed.
outcome<open_message> open_message::open(message_place place,
                                         const read_options& options) {
  auto reader = message_reader::open(place.source, place.span, options);
  if (!reader) {
    return cannot_read(reader.error(), place);
  }
  return open_message(std::move(place), std::move(*reader));
}

/// Decodes one object into a handle, which shares the metadata of the message with the
/// handles of the other objects.
/// The caller has compared `object` with the count.
outcome<message_handle> open_message::decode(std::size_t object) const {
  auto elements = reader_.decode(object);
  if (!elements) {
    return cannot_read(elements.error(), place_);
  }
  return handle_of(reader_, object, digests_[object], std::move(*elements), metadata_);
}

/// Opens only what the object needs, if the place is read by its outline.
outcome<message_handle> decode_object(const message_place& message, std::size_t object,
                                      const read_options& options) {
  const auto opened = open_object(message, object, options);
  if (!opened) {
    return cannot_read(opened.error(), message);
  }
  // Only the payload of this object is read.
  auto elements = opened->reader.decode(opened->number);
  if (!elements) {
    return cannot_read(elements.error(), message);
  }
  return handle_of(opened->reader, opened->number,
                   digests_of(opened->reader)[opened->number], std::move(*elements),
                   std::make_shared<const message_metadata>(opened->metadata(object)));
}

/// Decodes the ranges one by one. All of them are decoded before any is handed out.
outcome<std::vector<byte_vector>> decode_ranges(const message_place& message,
                                                const element_ranges& ranges,
                                                const read_options& options) {
  const auto opened = open_object(message, ranges.object, options);
  if (!opened) {
    return cannot_read(opened.error(), message);
  }
  const message_reader& reader = opened->reader;
  const object_descriptor& descriptor = reader.descriptor(opened->number);
  std::vector<byte_vector> out;
  for (std::size_t r = 0; r < ranges.offsets.size(); ++r) {
    // The range is checked for every object kind in the same way.
    WEIR_CHECK(check_range(descriptor, ranges.offsets[r], ranges.counts[r]));
    auto part = reader.decode_range(opened->number, ranges.offsets[r], ranges.counts[r]);
    if (!part) {
      failure why = cannot_read(part.error(), message);
      // The reference has another code for this case.
      if (why.code == TGM_ERROR_ENCODING && lacks_offsets(descriptor)) {
        why.code = TGM_ERROR_COMPRESSION;
      }
      return why;
    }
    out.push_back(std::move(*part));
  }
  return out;
}

/// Copies all parts behind each other into one buffer that C code can own.
outcome<owned_bytes> joined_bytes(std::span<const byte_vector> parts) {
  std::size_t size = 0;
  for (const byte_vector& part : parts) {
    size += part.size();
  }
  WEIR_TRY(owned_bytes out, owned_bytes::make(size));
  std::byte* to = out.view().data();
  for (const byte_vector& part : parts) {
    to = std::copy(part.begin(), part.end(), to);
  }
  return out;
}

namespace {

/// The metadata of an outline come from the header or the footer, whichever has them.
outcome<std::unique_ptr<tgm_metadata_t>> metadata_of_outline(
    const message_place& message) {
  // Default options: digests are verified where they are present.
  const auto outline = message_outline::open(message.source, message.span);
  if (!outline) {
    return cannot_read(outline.error(), message);
  }
  return std::make_unique<tgm_metadata_t>(outline->metadata());
}

}  // namespace

/// Reads the metadata of a message, and as little as possible beside them. A message in
/// memory is parsed in place.
outcome<std::unique_ptr<tgm_metadata_t>> decode_metadata(const message_place& message) {
  if (message.by_outline) {
    return metadata_of_outline(message);
  }
  constexpr std::uint64_t first_piece = 64 * 1024;
  // The metadata frame is near the start, and its size is not known before it has been
  // read. So a growing first part of the message is parsed until it suffices. The size
  // grows by a factor of four: all parts together are at most a third more than the last
  // one.
  const std::uint64_t all = message.span.length;
  const auto view = message.source->view();
  byte_vector piece;
  // A view needs no pieces; a file begins with the first 64 KiB.
  for (std::uint64_t size = view ? all : std::min(first_piece, all);;
       size = std::min(size * 4, all)) {
    if (!view) {
      piece.resize(size);
      WEIR_CHECK(message.source->read(message.span.offset, piece));
    }
    const bytes_view bytes =
        view ? view->subspan(message.span.offset, size) : bytes_view(piece);
    auto found = read_metadata(bytes);
    if (found) {
      return std::make_unique<tgm_metadata_t>(std::move(*found));
    }
    // Only a frame that is cut off can be helped by more bytes.
    if (found.error().code() != errc::torn || size == all) {
      return capi::cannot_read(found.error(), bytes);
    }
  }
}

}  // namespace weir::capi

/// The functions below translate arguments, call one of the functions above and hand the
/// result out. Outputs are set only on success.
using namespace weir::capi;  // NOLINT: the functions below are C

extern "C" {

tgm_error tgm_decode(const uint8_t* buf, size_t buf_len, int32_t native_order,
                     uint32_t threads, int32_t verify_hash, tgm_message_t** out) {
  return tgm_decode_with_options(buf, buf_len, native_order, threads, verify_hash,
                                 nullptr, out);
}

tgm_error tgm_decode_with_options(const uint8_t* buf, size_t buf_len,
                                  int32_t native_order, uint32_t threads,
                                  int32_t verify_hash,
                                  const TgmDecodeMaskOptions* mask_options,
                                  tgm_message_t** out) {
  return guarded(given(buf, out), [&]() -> outcome<void> {
    // The options are optional, and have one member.
    const bool restore = mask_options == nullptr || mask_options->restore_non_finite;
    WEIR_TRY(message_handle message,
             decode_message(view_of(buf, buf_len),
                            decode_arguments(native_order != 0, threads, verify_hash != 0,
                                             restore)));
    *out = message.release();
    return {};
  });
}

tgm_error tgm_x_decode(const uint8_t* buf, size_t buf_len,
                       const tgm_x_decode_options_t* options, tgm_message_t** out) {
  return guarded(given(buf, out), [&]() -> outcome<void> {
    WEIR_TRY(const auto how, decode_arguments(options));
    WEIR_TRY(message_handle message, decode_message(view_of(buf, buf_len), how));
    *out = message.release();
    return {};
  });
}

tgm_error tgm_decode_metadata(const uint8_t* buf, size_t buf_len, tgm_metadata_t** out) {
  return guarded(given(buf, out), [&]() -> outcome<void> {
    WEIR_TRY(auto metadata, decode_metadata(place_of(view_of(buf, buf_len))));
    *out = metadata.release();
    return {};
  });
}

tgm_error tgm_decode_object(const uint8_t* buf, size_t buf_len, size_t index,
                            int32_t native_order, uint32_t threads, int32_t verify_hash,
                            tgm_message_t** out) {
  return guarded(given(buf, out), [&]() -> outcome<void> {
    WEIR_TRY(
        message_handle object,
        decode_object(place_of(view_of(buf, buf_len)), index,
                      decode_arguments(native_order != 0, threads, verify_hash != 0)));
    *out = object.release();
    return {};
  });
}

tgm_error tgm_decode_range(const uint8_t* buf, size_t buf_len, size_t object_index,
                           const uint64_t* ranges_offsets, const uint64_t* ranges_counts,
                           size_t num_ranges, int32_t native_order, uint32_t threads,
                           int32_t join, tgm_bytes_t* out, size_t* out_count) {
  const bool complete = given(buf, out, out_count) &&
                        (num_ranges == 0 || given(ranges_offsets, ranges_counts));
  return guarded(complete, [&]() -> outcome<void> {
    WEIR_TRY(
        const auto parts,
        decode_ranges(
            place_of(view_of(buf, buf_len)),
            {object_index, {ranges_offsets, num_ranges}, {ranges_counts, num_ranges}},
            decode_arguments(native_order != 0, threads, false)));
    // Owners first, then the caller's array: if memory runs out in between, the caller
    // has received nothing that would leak.
    if (join != 0) {
      WEIR_TRY(owned_bytes joined, joined_bytes(parts));
      out[0] = joined.release();
      *out_count = 1;
      return {};
    }
    std::vector<owned_bytes> copies;
    for (const weir::byte_vector& part : parts) {
      WEIR_TRY(owned_bytes copy, owned_bytes::copy_of(part));
      copies.push_back(std::move(copy));
    }
    std::transform(copies.begin(), copies.end(), out,
                   [](owned_bytes& copy) { return copy.release(); });
    *out_count = copies.size();
    return {};
  });
}

tgm_error tgm_x_decode_range(const uint8_t* buf, size_t buf_len, size_t object_index,
                             const uint64_t* ranges_offsets,
                             const uint64_t* ranges_counts, size_t num_ranges,
                             const tgm_x_decode_options_t* options, tgm_bytes_t* out) {
  const bool complete =
      given(buf, out) && (num_ranges == 0 || given(ranges_offsets, ranges_counts));
  return guarded(complete, [&]() -> outcome<void> {
    WEIR_TRY(const auto how, decode_arguments(options));
    WEIR_TRY(const auto parts, decode_ranges(place_of(view_of(buf, buf_len)),
                                             {object_index,
                                              {ranges_offsets, num_ranges},
                                              {ranges_counts, num_ranges}},
                                             how));
    WEIR_TRY(owned_bytes joined, joined_bytes(parts));
    *out = joined.release();
    return {};
  });
}

}  // extern "C"
