// SPDX-License-Identifier: Apache-2.0
/// @file
/// CBOR of a message: global metadata, data object descriptors, index and digest lists.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weir/formats/tensogram.hpp"

namespace weir::formats {

/// C-order strides in elements. @error{out_of_range, a product exceeds 2^63-1}
[[nodiscard]] result<std::vector<std::uint64_t>> element_strides(
    const shape_vector& shape);

/// @error{corrupt, not a map, a required key absent or of the wrong kind, unknown dtype
/// or byte order,
///   ndim or strides that do not match the shape}
[[nodiscard]] result<object_descriptor> parse_descriptor(const cbor_value& from);
/// @error{unsupported, a dtype without a Tensogram name; out_of_range; invalid_argument,
/// a number of strides that is not that of the dimensions, a parameter with a key of the
/// descriptor}
[[nodiscard]] result<cbor_map> make_descriptor(const object_descriptor& from);
/// `{ndim, dtype, shape, strides}` of `base[i]._reserved_.tensor`.
/// @error{those of make_descriptor but the last}
[[nodiscard]] result<cbor_map> tensor_entry(const object_descriptor& from);

/// The entry `base[i]._reserved_` of an object: its tensor, and `szip_offsets`, the mark
/// of a writer that vouches for the offsets of szip, as 16 hexadecimal digits.
/// @error{those of tensor_entry}
[[nodiscard]] result<cbor_map> make_reserved(const object_descriptor& from);
/// Returns the mark `szip_offsets`, or 0 if there is none.
[[nodiscard]] std::uint64_t parse_szip_mark(const cbor_map& reserved) noexcept;

/// Global metadata of frame types 1, 7 and 8. Unknown top-level keys move into extra.
/// @error{corrupt, not a map, key not text, base, _extra_ or _reserved_ of the wrong
/// kind, key in two places}
[[nodiscard]] result<message_metadata> parse_metadata(cbor_value from);
/// The map that parse_metadata() reads back. A key of extra that is too deep for
/// `_extra_` stands at the top, where readers look for it as well.
[[nodiscard]] cbor_map make_metadata(const message_metadata& from);
/// Returns true if a value that a reader accepts at the top of the message's map would be
/// nested too deep inside `_extra_`.
[[nodiscard]] bool too_deep_for_extra(const cbor_value& value) noexcept;
[[nodiscard]] cbor_map make_provenance(const provenance& from);

/// Lays the keys of a preceder over a base entry; its `_reserved_` is dropped.
void overlay(cbor_map& base, const cbor_map& preceder);

/// Offsets and lengths of the data object frames.
struct object_index {
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> lengths;
};
/// @error{corrupt, not a map of two arrays of unsigned integers, arrays of different
/// size}
[[nodiscard]] result<object_index> parse_index(const cbor_value& from);
[[nodiscard]] cbor_map make_index(const object_index& from);
/// Bytes of the encoded index.
[[nodiscard]] std::uint64_t index_size(const object_index& index) noexcept;

struct digest_list {
  std::string algorithm;  ///< empty if absent
  std::vector<std::string> digests;
};
/// @error{corrupt, not a map with an array of text}
[[nodiscard]] result<digest_list> parse_digests(const cbor_value& from);
[[nodiscard]] cbor_map make_digests(std::span<const std::uint64_t> digests);

}  // namespace weir::formats
