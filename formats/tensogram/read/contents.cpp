// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads metadata, index, digest lists and descriptors of a message, and checks them
/// against each other. Faults are collected as issues, each with the code that validation
/// reports for it; a reader takes the first error among them.
///
/// `layout.cpp` has found the frames and checked their order. This file decodes what is
/// in them and brings it together: descriptors give the places of payloads and masks,
/// metadata frames give base entries, preceders override these, and index and digest
/// lists must agree with the frames. What a payload decodes to is checked by
/// `object_io.cpp`.
#include "tensogram/read/contents.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "tensogram/codec/pipeline.hpp"
#include "tensogram/wire/metadata.hpp"
#include "weir/base/hash.hpp"

namespace weir::formats {

namespace {

/// Codes that validation uses for faults in one kind of CBOR frame.
/// The names are those of the reference (docs/formats/tensogram.md, "Codes of the
/// validation").
struct cbor_codes {
  const char* failed;         ///< for bytes that are no CBOR
  const char* non_canonical;  ///< for CBOR in another than its canonical form
};

/// Returns the codes for a frame type.
cbor_codes codes_of(std::uint16_t type) {
  switch (type) {
    // Frames of header and footer have equal codes.
    case frame_type::header_metadata:
    case frame_type::footer_metadata:
      return {"metadata_cbor_parse_failed", "metadata_cbor_non_canonical"};
    case frame_type::header_index:
    case frame_type::footer_index:
      return {"index_cbor_parse_failed", "metadata_cbor_non_canonical"};
    case frame_type::preceder:
      return {"preceder_cbor_parse_failed", "preceder_cbor_non_canonical"};
    case frame_type::object:
      return {"descriptor_cbor_parse_failed", "descriptor_cbor_non_canonical"};
    default: return {"hash_frame_cbor_parse_failed", "metadata_cbor_non_canonical"};
  }
}

/// Returns the text of an error with its place and the texts of its causes.
/// Returns one text, because an issue has one description.
std::string whole_text(const error& e) {
  std::string text = e.text();
  if (!e.location().empty()) {
    text += " (" + e.location() + ")";
  }
  // Causes follow in order, the most general first.
  for (const error* cause = e.cause(); cause != nullptr; cause = cause->cause()) {
    text += ": " + cause->text();
  }
  return text;
}

/// Reads the frames of a layout. The objects come first, because index, digest list and
/// preceders refer to them. A frame with a fault is left out and the others are still
/// read.
class content_reader {
 public:
  content_reader(piece_reader& pieces, const message_layout& layout,
                 const content_checks& checks, issue_list& issues)
      : pieces_(pieces), layout_(layout), checks_(checks), issues_(issues) {}

  /// Takes the contents of all frames in two passes. A failure to read ends it; damage in
  /// a frame only adds an issue, and the walk goes on with the next frame.
  result<message_contents> run() {
    // The objects come first, because the frames of the header refer to them.
    for (const frame_info& frame : layout_.frames) {
      if (frame.type == frame_type::object) {
        WEIR_CHECK(take_object(frame));
      }
    }
    // The number of objects passed tells which object a preceder belongs to.
    std::size_t next_object = 0;
    for (const frame_info& frame : layout_.frames) {
      if (frame.type == frame_type::object) {
        ++next_object;
      } else {
        WEIR_CHECK(take_frame(frame, next_object));
      }
    }
    // Needs the preceders of all objects.
    resolve_metadata();
    return std::move(out_);
  }

 private:
  /// Notes an issue of any kind; fail() notes an error of the level of metadata.
  void add(const char* code, validation_level level, issue_severity severity, errc kind,
           std::uint64_t offset, std::string text,
           std::optional<std::size_t> object = {}) {
    issues_.add({{code, level, severity, object, offset, std::move(text)}, kind});
  }
  // Notes an error about metadata at an offset of the message.
  void fail(const char* code, std::uint64_t offset, std::string text,
            std::optional<std::size_t> object = {}, errc kind = errc::corrupt) {
    add(code, validation_level::metadata, issue_severity::error, kind, offset,
        std::move(text), object);
  }

  /// Decodes the CBOR at `offset` of the message and notes its faults. Returns nothing
  /// after a fault. In front of a payload the length of a descriptor is unknown, so
  /// decoding then begins with all bytes up to the end of the frame.
  std::optional<cbor_item> decode(const frame_info& frame, bytes_view bytes,
                                  std::uint64_t offset,
                                  std::optional<std::size_t> object) {
    auto item = decode_cbor(bytes);
    // In the check for canonical form, all bytes count that the decoder is given. The
    // length of the descriptor is known now, so it is decoded once more without the
    // payload.
    if (item && checks_.canonical && item->used < bytes.size() &&
        frame.type == frame_type::object && !descriptor_last(frame)) {
      item = decode_cbor(bytes.first(item->used));  // what follows is the payload
    }
    // A descriptor in front of its payload has no stated end, so broken CBOR there means
    // that the place of the payload is unknown: a fault of the structure.
    if (!item) {
      const bool boundary = frame.type == frame_type::object && !descriptor_last(frame);
      add(boundary ? "cbor_before_boundary_unknown" : codes_of(frame.type).failed,
          boundary ? validation_level::structure : validation_level::metadata,
          issue_severity::error, errc::corrupt, offset,
          fmt::format("cannot read {}: {}", frame_type_name(frame.type),
                      whole_text(item.error())),
          object);
      return std::nullopt;
    }
    // Only a warning: such CBOR can be read.
    if (checks_.canonical && !item->deviation.empty()) {
      add(codes_of(frame.type).non_canonical, validation_level::metadata,
          issue_severity::warning, errc::corrupt, offset,
          fmt::format("CBOR of {}: expected canonical form, found {}",
                      frame_type_name(frame.type), item->deviation),
          object);
    }
    return std::move(*item);
  }

  /// Returns the value of a parser, or notes its error under `code`.
  template <class T>
  std::optional<T> noted(result<T> parsed, const char* code, std::uint64_t offset,
                         std::optional<std::size_t> object = {}) {
    if (!parsed) {
      fail(code, offset, whole_text(parsed.error()), object);
      return std::nullopt;
    }
    return std::move(*parsed);
  }

  /// Reads the descriptor of a data object and finds its payload. An object with a fault
  /// stays in the list, not usable, so that the numbers of the others stay right.
  result<void> take_object(const frame_info& frame) {
    const std::size_t i = out_.objects.size();
    // The entry is made first, whatever comes later.
    object_place& place = out_.objects.emplace_back();
    place.frame = frame;
    const std::uint64_t offset = layout_.descriptor_offsets[i];
    const frame_body body = body_of(frame);
    if (offset < frame_header_size || offset >= frame.length - object_tail_size) {
      return {};  // the walk over the frames has noted it
    }
    const bool after = descriptor_last(frame);
    // Offsets of the frame become offsets of the message.
    const std::uint64_t start = frame.offset + offset;
    const std::uint64_t end = body.offset + body.length;
    // Reads up to the tail of the frame, or up to the payload if the descriptor follows
    // it.
    WEIR_TRY(const bytes_view bytes,
             pieces_.read(layout_.span.offset + start, end - start));
    const auto item = decode(frame, bytes, start, i);
    if (!item) {
      return {};
    }
    // A descriptor behind the payload must fill the bytes up to the tail.
    if (after && item->used != bytes.size()) {
      fail("descriptor_cbor_parse_failed", start,
           fmt::format("cannot read descriptor: expected {} bytes of CBOR, found {}",
                       bytes.size(), item->used),
           i);
      return {};
    }
    // At first everything up to the end of the region counts as payload. The masks then
    // cut their part off.
    // A fault of the descriptor is noted with the most fitting code.
    auto descriptor =
        noted(parse_descriptor(item->value), descriptor_code(item->value), start, i);
    if (descriptor) {
      place.descriptor = std::move(*descriptor);
      place.payload_offset = after ? body.offset : start + item->used;
      finish_object(place, i, after ? start : end);
    }
    return {};
  }

  /// Returns the code of a descriptor that could not be parsed. The most common faults
  /// have codes of their own.
  static const char* descriptor_code(const cbor_value& value) {
    const cbor_map* map = value.map();
    const auto count = [&](const char* key) -> std::optional<std::size_t> {
      const cbor_value* v = map != nullptr ? map->find(key) : nullptr;
      return v != nullptr && v->array() != nullptr ? std::optional(v->array()->size())
                                                   : std::nullopt;
    };
    // Only if the shape itself can be read.
    if (const auto dimensions = count("shape")) {
      const cbor_value* ndim = map->find("ndim");
      if (ndim != nullptr && ndim->uint64() && *ndim->uint64() != *dimensions) {
        return "ndim_shape_mismatch";
      }
      if (count("strides") && *count("strides") != *dimensions) {
        return "strides_shape_mismatch";
      }
    }
    return "descriptor_cbor_parse_failed";
  }

  /// Determines the sizes of an object whose payload and masks end at `region_end`.
  void finish_object(object_place& place, std::size_t i, std::uint64_t region_end) {
    place.region_length = region_end - place.payload_offset;
    place.payload_length = place.region_length;
    // Masks cut their part off the region.
    if (!check_masks(place, i)) {
      return;
    }
    // A product that overflows makes the object unusable.
    const auto decoded =
        noted(decoded_size(place.descriptor), "shape_overflow", place.frame.offset, i);
    if (!decoded) {
      return;
    }
    place.decoded = *decoded;
    place.usable = true;
    check_names(place, i);
  }

  /// Checks the type of the object, and the size of a payload that is stored raw.
  void check_names(const object_place& place, std::size_t i) {
    // Faults of names are noted, and the object stays usable.
    if (place.descriptor.object_type.empty()) {
      add("empty_obj_type", validation_level::metadata, issue_severity::error,
          errc::corrupt, place.frame.offset,
          "cannot use descriptor: expected a type, found an empty one", i);
    }
    // Only a raw payload has a size that is known in advance.
    const bool raw = place.descriptor.encoding == "none" &&
                     place.descriptor.filter == "none" &&
                     place.descriptor.compression == "none";
    // The object stays usable here; decoding it will fail with its own error.
    if (raw && place.payload_length != place.decoded) {
      fail("decoded_size_mismatch", place.frame.offset,
           fmt::format(
               "cannot use payload: expected {} bytes from shape and dtype, found {}",
               place.decoded, place.payload_length),
           i);
    }
  }

  /// Checks the masks and shortens the payload: the masks follow the payload, so the
  /// smallest offset among them is its end. Returns false after a fault.
  bool check_masks(object_place& place, std::size_t i) {
    const std::uint64_t region = place.payload_length;
    for (const cbor_entry& entry : place.descriptor.masks) {
      const cbor_map* mask = entry.value.map();
      // `number` reads an unsigned integer of the mask.
      const auto number = [&](const char* key) -> std::optional<std::uint64_t> {
        const cbor_value* v = mask != nullptr ? mask->find(key) : nullptr;
        return v != nullptr ? v->uint64() : std::nullopt;
      };
      const auto offset = number("offset");
      const auto length = number("length");
      const cbor_value* method = mask != nullptr ? mask->find("method") : nullptr;
      if (!offset || !length || method == nullptr || method->text() == nullptr) {
        fail("descriptor_cbor_parse_failed", place.frame.offset,
             fmt::format(
                 "cannot read mask {}: expected offset, length and method, found {}",
                 to_json(entry.key), to_json(entry.value)),
             i);
        return false;
      }
      // Offsets and lengths come from the file, so the sum of both is never formed.
      if (*offset > region || *length > region - *offset) {
        fail("decode_object_failed", place.frame.offset,
             fmt::format(
                 "cannot read mask {}: expected it within {} bytes, found offset {} and "
                 "length {}",
                 to_json(entry.key), region, *offset, *length),
             i);
        return false;
      }
      if (!known_mask_method(*method->text())) {
        fail("decode_object_failed", place.frame.offset,
             fmt::format(
                 "cannot read mask {}: expected a method of Tensogram v3, found \"{}\"",
                 to_json(entry.key), *method->text()),
             i);
        return false;
      }
      // The payload ends where the first mask begins.
      place.payload_length = std::min(place.payload_length, *offset);
    }
    return true;
  }
  // Returns whether the format has a method with this name. Unknown kinds of masks are
  // allowed, unknown methods are not.
  static bool known_mask_method(std::string_view name) {
    for (const std::string_view known :
         {"none", "rle", "roaring", "lz4", "zstd", "blosc2"}) {
      if (name == known) {
        return true;
      }
    }
    return false;
  }

  /// Reads a frame other than a data object; `next_object` is the number of data objects
  /// before it. A frame whose digest is wrong is not used.
  result<void> take_frame(const frame_info& frame, std::size_t next_object) {
    const frame_body body = body_of(frame);
    // The body is small: metadata, an index or digests.
    WEIR_TRY(const bytes_view bytes,
             pieces_.read(layout_.span.offset + body.offset, body.length));
    // The digest is verified before a byte of the body is used.
    if (checks_.digests && has_digest(frame, layout_.head, checks_.legacy)) {
      if (const std::uint64_t actual = xxh3_64(bytes); actual != frame.digest) {
        add("hash_mismatch", validation_level::integrity, issue_severity::error,
            errc::hash_mismatch, frame.offset,
            fmt::format("cannot trust {}: expected digest {}, found {}",
                        frame_type_name(frame.type), hex64(frame.digest), hex64(actual)));
        return {};
      }
    }
    const auto item = decode(frame, bytes, body.offset, std::nullopt);
    if (item) {
      use_frame(frame, item->value, next_object);
    }
    return {};
  }

  /// Uses the content of a frame according to its type.
  void use_frame(const frame_info& frame, const cbor_value& value,
                 std::size_t next_object) {
    // All parsers note their errors under the same code.
    const char* failed = codes_of(frame.type).failed;
    switch (frame.type) {
      case frame_type::header_metadata:
      case frame_type::footer_metadata:
        if (auto metadata = noted(parse_metadata(value), failed, frame.offset)) {
          // The frame of the footer replaces that of the header.
          out_.metadata = std::move(*metadata);
          metadata_frame_ = frame.offset;
        }
        break;
      case frame_type::preceder:
        if (auto metadata = noted(parse_metadata(value), failed, frame.offset)) {
          take_preceder(frame, std::move(*metadata), next_object);
        }
        break;
      case frame_type::header_index:
      case frame_type::footer_index:
        if (const auto index = noted(parse_index(value), failed, frame.offset)) {
          check_index(frame, *index);
        }
        break;
      // What is left are digest lists of header and footer.
      default:
        if (const auto digests = noted(parse_digests(value), failed, frame.offset)) {
          check_digests(frame, *digests);
        }
    }
  }

  /// Keeps the keys of a preceder for the object that follows it.
  void take_preceder(const frame_info& frame, message_metadata metadata,
                     std::size_t object) {
    // A preceder describes exactly the object behind it.
    if (metadata.base.size() != 1) {
      fail("preceder_base_count_wrong", frame.offset,
           fmt::format("cannot use preceder: expected one base entry, found {}",
                       metadata.base.size()));
      return;
    }
    // Applied at the end, when the base entries are known.
    preceders_.emplace_back(object, std::move(metadata.base.front()));
  }

  /// Compares an index with the places at which the objects were found.
  void check_index(const frame_info& frame, const object_index& index) {
    // Without equal numbers, single entries cannot be compared.
    if (index.offsets.size() != out_.objects.size()) {
      fail("index_count_mismatch", frame.offset,
           fmt::format("cannot trust index: expected {} objects, found {}",
                       out_.objects.size(), index.offsets.size()));
      return;
    }
    // Every object is compared, so validation names all that differ.
    for (std::size_t i = 0; i < index.offsets.size(); ++i) {
      const frame_info& object = out_.objects[i].frame;
      if (index.offsets[i] != object.offset) {
        fail("index_offset_mismatch", frame.offset,
             fmt::format("cannot trust index: expected offset {}, found {}",
                         object.offset, index.offsets[i]),
             i);
      }
      if (index.lengths[i] != object.length) {
        fail("index_length_mismatch", frame.offset,
             fmt::format("cannot trust index: expected length {}, found {}",
                         object.length, index.lengths[i]),
             i);
      }
    }
  }

  /// Compares a digest list with the digests in the frames of the objects. Those are
  /// compared with the bytes themselves when an object is decoded.
  void check_digests(const frame_info& frame, const digest_list& list) {
    // Digests of an unknown kind cannot be compared, which is no damage.
    if (list.algorithm != "xxh3") {
      add("unknown_hash_algorithm", validation_level::integrity, issue_severity::warning,
          errc::corrupt, frame.offset,
          fmt::format("digest list: expected algorithm \"xxh3\", found \"{}\"",
                      list.algorithm));
      return;
    }
    if (list.digests.size() != out_.objects.size()) {
      fail("hash_frame_count_mismatch", frame.offset,
           fmt::format("cannot trust digest list: expected {} digests, found {}",
                       out_.objects.size(), list.digests.size()));
      return;
    }
    // The list repeats the digests of the frames; both must be equal texts.
    for (std::size_t i = 0; i < list.digests.size() && checks_.digests; ++i) {
      const std::string slot = hex64(out_.objects[i].frame.digest);
      if (list.digests[i] != slot) {
        add("hash_mismatch", validation_level::integrity, issue_severity::error,
            errc::hash_mismatch, frame.offset,
            fmt::format("cannot trust digest list: expected {} as in the object's frame, "
                        "found {}",
                        slot, list.digests[i]),
            i);
      }
    }
  }

  /// Brings the metadata into its final form: one base entry per object, with the keys of
  /// its preceder on top, and the mark of szip offsets in the descriptor.
  void resolve_metadata() {
    std::vector<cbor_map>& base = out_.metadata.base;
    // More entries than objects would describe something that does not exist.
    if (base.size() > out_.objects.size()) {
      fail("base_count_exceeds_objects", metadata_frame_,
           fmt::format("cannot use metadata: expected at most {} base entries, found {}",
                       out_.objects.size(), base.size()));
      return;
    }
    // Objects without an entry get an empty one.
    base.resize(out_.objects.size());
    for (const auto& [object, keys] : preceders_) {
      // A preceder behind the last object has been noted by the layout.
      if (object < base.size()) {
        overlay(base[object], keys);
      }
    }
    // `_reserved_` belongs to the writer. A base entry may lack it, but what is there
    // must have the right form.
    for (std::size_t i = 0; i < base.size(); ++i) {
      const cbor_value* reserved = base[i].find("_reserved_");
      if (reserved != nullptr && reserved->map() == nullptr) {
        add("reserved_not_a_map", validation_level::metadata, issue_severity::error,
            errc::corrupt, metadata_frame_,
            "cannot use base entry: expected a map under _reserved_, found other", i);
      } else if (reserved != nullptr && reserved->map()->find("tensor") == nullptr) {
        add("reserved_missing_tensor", validation_level::metadata,
            issue_severity::warning, errc::corrupt, metadata_frame_,
            "base entry: expected a tensor under _reserved_, found none", i);
      }
      take_szip_mark(base[i], out_.objects[i].descriptor);
    }
  }

  piece_reader& pieces_;
  const message_layout& layout_;  ///< frames of the message
  const content_checks& checks_;  ///< what the caller wants to be checked
  issue_list& issues_;            ///< where faults go
  message_contents out_;          ///< the result
  std::vector<std::pair<std::size_t, cbor_map>>
      preceders_;                     ///< number of the object and its keys
  std::uint64_t metadata_frame_ = 0;  ///< offset of the metadata frame that counts
};

}  // namespace

/// See contents.hpp for frames that have a digest without the flag.
bool has_digest(const frame_info& frame, const preamble& head, bool legacy) noexcept {
  return (frame.flags & frame_flag::hash_present) != 0 ||
         (legacy && (head.flags & preamble_flag::hashes_present) != 0 &&
          frame.digest != 0);
}

/// The mark belongs to the descriptor, as it says how ranges can be read.
void take_szip_mark(const cbor_map& base, object_descriptor& to) noexcept {
  const cbor_value* reserved = base.find("_reserved_");
  if (reserved != nullptr && reserved->map() != nullptr) {
    to.szip_offsets = parse_szip_mark(*reserved->map());
  }
}

/// The checks of a message need its layout, but not that the layout is complete.
result<message_contents> read_contents(piece_reader& pieces, const message_layout& layout,
                                       const content_checks& checks, issue_list& issues) {
  return content_reader(pieces, layout, checks, issues).run();
}

}  // namespace weir::formats
