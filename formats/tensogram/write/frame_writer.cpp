// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks and encodes objects, and writes frames with their digests and padding. The
/// writers of whole messages and of streams share this code.
#include "tensogram/write/frame_writer.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "tensogram/codec/bits/masks.hpp"
#include "tensogram/wire/copy_hash.hpp"
#include "tensogram/wire/metadata.hpp"
#include "tensogram/write/finite.hpp"
#include "weir/base/hash.hpp"

namespace weir::formats {

namespace {

/// Returns how many containers may nest in a map at this place, including the map. A base
/// entry is inside two others. Keys of `_extra_` may move to the top of the message.
/// In `_extra_` a value has two containers around it as well, but see has_no_place().
constexpr std::size_t deepest(metadata_place place) noexcept {
  return place == metadata_place::base_entry ? cbor_depth_limit - 2 : cbor_depth_limit;
}

/// Returns whether a key is nested too deep for `_extra_` and cannot move to the top of
/// the message's map, where keys must be text and some names are taken.
/// Such a key could be written nowhere, so the message is refused.
bool has_no_place(const cbor_map& extra) {
  return std::any_of(extra.begin(), extra.end(), [](const cbor_entry& entry) {
    const std::string* key = entry.key.text();
    const bool taken = key == nullptr || *key == "base" || *key == "_extra_";
    return taken && too_deep_for_extra(entry.value);
  });
}

/// Checks the type, the metadata and the parameters of an object.
result<void> check_text(const object_to_write& object) {
  if (object.descriptor.object_type.empty()) {
    return error(
        errc::invalid_argument,
        "cannot write object: expected a type such as \"ntensor\", found nothing");
  }
  WEIR_CHECK(check_metadata(object.metadata, metadata_place::base_entry,
                            "metadata of the object"));
  return check_metadata(object.descriptor.parameters, metadata_place::descriptor,
                        "parameters of the object");
}

/// Checks that shape and dtype demand as many bytes as there are.
/// The size is that of the decoded elements, whatever the stages do.
result<void> check_size(const object_to_write& object) {
  WEIR_TRY(const std::uint64_t expected, decoded_size(object.descriptor));
  if (object.data.size() != expected) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot write object: expected {} bytes from shape and dtype, found "
                    "{}",
                    expected, object.data.size()));
  }
  return {};
}

/// Size of the pieces that are hashed and checked, in bytes. They are small enough for
/// the second pass to read them from the first-level cache. A multiple of every element
/// size.
constexpr std::size_t look_piece = 4 * 1024;

/// Payloads from this size on are copied past the caches, piece by piece as they are
/// hashed, because so much data would not stay in the caches until it is read again. That
/// needs memory that was in use before; into new memory a payload is copied at once, and
/// the C library bypasses the caches as well.
constexpr std::size_t streamed_payload = std::size_t{2} << 20;

/// Checks that a piece is finite; `first` is the index of its first element.
result<void> check_finite(bytes_view elements, const object_descriptor& descriptor,
                          std::size_t first) {
  const auto found = find_non_finite(elements, descriptor.type, descriptor.order);
  if (found) {
    return non_finite_error(descriptor.type, found->nan, first + found->index);
  }
  return {};
}

/// Takes an object through the checks and the stages of its pipeline. The elements may be
/// replaced by copies on the way, without non-finite values or in another byte order, and
/// the descriptor changes accordingly.
/// The order is: describe, look at the values, encode, make the descriptor. The
/// descriptor comes last, because stages add parameters to it.
class preparation {
 public:
  preparation(const object_to_write& object, const message_options& options,
              unsigned threads)
      : object_(object),
        options_(options),
        threads_(threads),
        descriptor_(object.descriptor),
        elements_(object.data) {
    // Masks of a descriptor that was read belong to its old payload.
    if (!object.stored) {
      descriptor_.masks = {};
    }
  }

  /// Stored payloads are checked and passed on; elements are checked and encoded.
  result<prepared_object> run() {
    WEIR_CHECK(check_described(object_));
    if (object_.stored) {
      // A stored payload is not decoded, so its values are not looked at.
      WEIR_CHECK(check_stored(descriptor_, stored_size()));
      out_.payload.bytes = object_.data;
    } else {
      WEIR_CHECK(look_at_values());
      WEIR_CHECK(encode());
    }
    WEIR_TRY(out_.reserved, make_reserved(descriptor_));
    WEIR_TRY(cbor_map descriptor, make_descriptor(descriptor_));
    // The writer of a message may have to add padding to the map.
    if (options_.payload_alignment != 0) {
      out_.map = descriptor;
    }
    out_.descriptor = encode_cbor(std::move(descriptor));
    return std::move(out_);
  }

 private:
  /// Returns the size of a stored payload, which ends at the first mask.
  std::uint64_t stored_size() const {
    std::uint64_t out = object_.data.size();
    for (const cbor_entry& mask : descriptor_.masks) {
      const cbor_value* offset =
          mask.value.map() == nullptr ? nullptr : mask.value.map()->find("offset");
      // A mask without an offset counts as one at 0.
      out = std::min(out, offset == nullptr ? 0 : offset->uint64().value_or(0));
    }
    return out;
  }
  // Packing computes with the values, so it must know about those that are not finite.
  bool packed() const { return descriptor_.encoding == "simple_packing"; }

  /// Takes non-finite values out if masks are allowed. Otherwise checks for them, unless
  /// a later pass over the elements checks them anyway: the copy of raw elements, or the
  /// computation of packing parameters.
  result<void> look_at_values() {
    const bool masks_allowed = options_.masks.nan || options_.masks.infinity;
    if (packed() && masks_allowed && descriptor_.type == dtype::fp64) {
      WEIR_CHECK(settle_constant(descriptor_.parameters, elements_, descriptor_.order));
    }
    // Computing the parameters needs finite values and refuses others by itself.
    const bool computed =
        packed() && descriptor_.parameters.find("sp_reference_value") == nullptr;
    if (masks_allowed && !computed) {
      WEIR_TRY(taken_, take_masks(elements_, descriptor_, options_.masks,
                                  options_.floats == non_finite::store));
      elements_ = taken_ ? bytes_view(taken_->elements) : elements_;
      return {};
    }
    const bool raw =
        !packed() && descriptor_.filter == "none" && descriptor_.compression == "none";
    if (options_.floats == non_finite::refuse && raw) {
      // A pass that follows reads all bytes anyway.
      out_.unchecked = &object_.descriptor;  // checked in the pass that copies and hashes
    } else if (options_.floats == non_finite::refuse && !packed()) {
      return check_finite(elements_, descriptor_, 0);
    }
    return {};
  }

  /// Runs the pipeline and stores the masks behind the payload.
  result<void> encode() {
    byte_vector swapped;
    // Packing works on doubles of the machine.
    if (packed() && descriptor_.order != native_byte_order) {
      swapped.assign(elements_.begin(), elements_.end());
      swap_units(swapped, info_of(descriptor_.type).swap_unit);
      elements_ = swapped;
    }
    WEIR_TRY(const pipeline plan, plan_writing(descriptor_, elements_, threads_));
    WEIR_TRY(out_.payload, encode_payload(plan, descriptor_, elements_, threads_));
    if (taken_) {
      WEIR_TRY(stored_masks masks,
               store_masks(taken_->masks, plan.count, out_.payload.bytes.size(),
                           options_.masks));
      out_.masks = std::move(masks.bytes);
      descriptor_.masks = std::move(masks.map);
      // A raw payload is a view of the elements, which end with this object.
      if (plan.raw()) {
        WEIR_TRY(out_.payload, make_buffer(taken_->elements.size()));
        std::copy(taken_->elements.begin(), taken_->elements.end(),
                  out_.payload.storage.get());
      }
    }
    return {};
  }

  const object_to_write& object_;
  const message_options& options_;
  unsigned threads_;
  object_descriptor descriptor_;
  bytes_view elements_;
  std::optional<masked_elements> taken_;
  prepared_object out_;
};

}  // namespace

/// Objects count from 0.
std::string object_name(std::size_t index) {
  return fmt::format("object {}", index);
}

/// `tensor_entry` checks the type, the extents and the strides.
result<void> check_described(const object_to_write& object) {
  WEIR_CHECK(check_text(object));
  WEIR_CHECK(tensor_entry(object.descriptor));
  return object.stored ? result<void>() : check_size(object);
}

/// Prepares one object for the message, and says in an error which object it was.
result<prepared_object> prepare(const object_to_write& object, std::size_t index,
                                const message_options& options, unsigned threads) {
  auto prepared = preparation(object, options, threads).run();
  if (!prepared) {
    return std::move(prepared).error().located(object_name(index));
  }
  return prepared;
}

/// Depth is checked here, because a reader refuses deeper nesting, and a message that
/// cannot be read must not be written.
result<void> check_metadata(const cbor_map& metadata, metadata_place place,
                            const std::string& part) {
  if (metadata.find("_reserved_") != nullptr) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot write {}: expected keys other than _reserved_, found it",
                    part));
  }
  // A misplaced key has one level less than the limit says.
  const bool misplaced = place == metadata_place::extra && has_no_place(metadata);
  if (depth_of(metadata) > deepest(place) || misplaced) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot write {}: expected at most {} nested containers, found more",
                    part, deepest(place) - (misplaced ? 1 : 0)));
  }
  return {};
}

/// The writer's map replaces what a caller may have left.
void add_reserved(cbor_map& base, const cbor_map& reserved) {
  base.set("_reserved_", reserved);
}

/// The digest covers the body alone (tensogram_internals.md, "Frame Header"). Padding
/// follows the frame and is not part of it.
byte_vector make_frame(std::uint16_t type, bytes_view body, bool hashed) {
  const std::uint64_t length = frame_header_size + body.size() + frame_tail_size;
  byte_vector out;
  out.reserve(align_up(length, frame_alignment));
  append(out, make_frame_header(
                  type, hashed ? frame_flag::hash_present : std::uint16_t{0}, length));
  append(out, body);
  append(out, make_frame_tail(hashed ? xxh3_64(body) : 0));
  out.resize(align_up(length, frame_alignment));
  return out;
}

/// Three ways: a small payload is copied and hashed at the end in one call; a medium one
/// is copied first, then hashed and checked in pieces; a large one is copied past the
/// caches piece by piece while each piece is hashed and checked.
result<std::uint64_t> pass_payload(const prepared_object& object, bool hashed,
                                   message_buffer* to) {
  const bytes_view payload = object.payload.bytes;
  const bool small = to != nullptr && payload.size() <= look_piece;
  mutable_bytes streamed;
  // `take` gives memory only if the vector has been as long before.
  if (to != nullptr && payload.size() >= streamed_payload) {
    streamed = to->take(payload.size());
  }
  if (to != nullptr && streamed.empty()) {
    to->put(payload);
  }
  std::optional<xxh3_stream> digest;
  if (hashed && !small) {
    digest.emplace();
  }
  for (std::size_t i = 0; i < payload.size(); i += look_piece) {
    const bytes_view piece = payload.subspan(i, std::min(look_piece, payload.size() - i));
    if (digest) {
      digest->update(piece);  // first: it computes while the memory delivers
    }
    if (object.unchecked != nullptr) {
      // Pieces begin at whole elements, since their size is a multiple of every element.
      const std::size_t width =
          std::max<std::size_t>(1, info_of(object.unchecked->type).size);
      WEIR_CHECK(check_finite(piece, *object.unchecked, i / width));
    }
    if (!streamed.empty()) {
      copy_past_caches(piece, streamed.data() + i);
    }
  }
  finish_copies();
  // Masks and descriptor belong to the body and to its digest.
  for (const bytes_view part :
       {bytes_view(object.masks), bytes_view(object.descriptor)}) {
    if (to != nullptr) {
      to->put(part);
    }
    if (digest) {
      digest->update(part);
    }
  }
  if (digest) {
    return digest->digest();
  }
  // A small body is in one place now and is hashed with one call.
  const std::size_t body =
      payload.size() + object.masks.size() + object.descriptor.size();
  return hashed ? xxh3_64(to->last(body)) : std::uint64_t{0};
}

/// The descriptor offset counts from the start of the frame (tensogram_internals.md,
/// "Data Object Frame Layout").
byte_vector make_object_end(const prepared_object& object, std::uint64_t digest) {
  byte_vector out;
  out.reserve(object_tail_size + frame_alignment);
  // The offset comes first, then the tail that all frames have.
  out.resize(8);
  store_be<std::uint64_t>(
      out.data(), frame_header_size + object.payload.bytes.size() + object.masks.size());
  append(out, make_frame_tail(digest));
  const std::uint64_t length = object.frame_length();
  out.resize(out.size() + (align_up(length, frame_alignment) - length));
  return out;
}

}  // namespace weir::formats
