// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writing frames with their digests and padding.
#include "tensogram/write/frame_writer.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "tensogram/wire/copy_hash.hpp"
#include "tensogram/wire/metadata.hpp"
#include "tensogram/write/finite.hpp"
#include "weir/base/hash.hpp"

namespace weir::formats {

namespace {

/// The message map and the array of base entries stand around what a caller gives.
constexpr std::size_t deepest_metadata = cbor_depth_limit - 2;

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

/// `first` is the index of the first element of the piece.
result<void> check_finite(bytes_view elements, const object_descriptor& descriptor,
                          std::size_t first) {
  const auto found = find_non_finite(elements, descriptor.type, descriptor.order);
  if (found) {
    return error(errc::invalid_argument,
                 fmt::format(
                     "cannot write object: expected finite {} elements, found {} at "
                     "element {}",
                     info_of(descriptor.type).tensogram,
                     found->nan ? "NaN" : "an infinity", first + found->index))
        .hint("non_finite::store writes the bits as they are");
  }
  return {};
}

result<prepared_object> prepare_here(const object_to_write& object,
                                     const message_options& options) {
  WEIR_CHECK(check_writable(object.descriptor));
  WEIR_CHECK(check_metadata(object.metadata, "metadata of the object"));
  WEIR_CHECK(check_metadata(object.descriptor.parameters, "parameters of the object"));
  prepared_object out;
  WEIR_TRY(out.tensor, tensor_entry(object.descriptor));
  WEIR_TRY(cbor_map descriptor, make_descriptor(object.descriptor));
  out.descriptor = encode_cbor(std::move(descriptor));
  WEIR_CHECK(check_size(object));
  const bool raw = object.descriptor.compression == "none";
  if (options.floats == non_finite::refuse && raw) {
    out.unchecked = &object.descriptor;  // in the pass that copies and hashes
  } else if (options.floats == non_finite::refuse) {
    WEIR_CHECK(check_finite(object.data, object.descriptor, 0));
  }
  WEIR_TRY(out.payload, encode_payload(object.descriptor, object.data));
  return out;
}

}  // namespace

std::string object_name(std::size_t index) {
  return fmt::format("object {}", index);
}

result<prepared_object> prepare(const object_to_write& object, std::size_t index,
                                const message_options& options) {
  auto prepared = prepare_here(object, options);
  if (!prepared) {
    return std::move(prepared).error().at(object_name(index));
  }
  return prepared;
}

result<void> check_metadata(const cbor_map& metadata, const std::string& what) {
  if (metadata.find("_reserved_") != nullptr) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot write {}: expected keys other than _reserved_, found it",
                    what));
  }
  if (depth_of(metadata) > deepest_metadata) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot write {}: expected at most {} nested containers, found more",
                    what, deepest_metadata));
  }
  return {};
}

void add_tensor(cbor_map& base, const cbor_map& tensor) {
  base.set("_reserved_", cbor_map{{"tensor", tensor}});
}

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

result<std::uint64_t> pass_payload(const prepared_object& object, bool hashed,
                                   byte_vector* to) {
  const bytes_view payload = object.payload.bytes;
  const bool at_once = to != nullptr && payload.size() <= copy_piece;
  std::optional<xxh3_stream> digest;
  if (hashed && !at_once) {
    digest.emplace();
  }
  for (std::size_t at = 0; at < payload.size(); at += copy_piece) {
    const bytes_view piece =
        payload.subspan(at, std::min(copy_piece, payload.size() - at));
    if (object.unchecked != nullptr) {
      const std::size_t width =
          std::max<std::size_t>(1, info_of(object.unchecked->type).size);
      WEIR_CHECK(check_finite(piece, *object.unchecked, at / width));
    }
    if (to != nullptr) {
      append(*to, piece);
    }
    if (digest) {
      digest->update(piece);
    }
  }
  if (to != nullptr) {
    append(*to, object.descriptor);
  }
  if (digest) {
    digest->update(object.descriptor);
    return digest->digest();
  }
  return hashed ? xxh3_64(bytes_view(*to).last(payload.size() + object.descriptor.size()))
                : std::uint64_t{0};
}

byte_vector make_object_end(const prepared_object& object, std::uint64_t digest) {
  byte_vector out;
  out.reserve(object_tail_size + frame_alignment);
  out.resize(8);
  store_be<std::uint64_t>(out.data(), frame_header_size + object.payload.bytes.size());
  append(out, make_frame_tail(digest));
  const std::uint64_t length = object.frame_length();
  out.resize(out.size() + (align_up(length, frame_alignment) - length));
  return out;
}

}  // namespace weir::formats
