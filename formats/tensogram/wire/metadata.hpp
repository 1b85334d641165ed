// SPDX-License-Identifier: Apache-2.0
/// @file
/// Conversion of the CBOR parts of a message: global metadata, descriptors of data
/// objects, index and digest lists.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weir/formats/tensogram.hpp"

namespace weir::formats {

/// Returns the strides of C order, in elements. @error{out_of_range, a product exceeds
/// 2^63 - 1}
[[nodiscard]] result<std::vector<std::uint64_t>> element_strides(
    const shape_vector& shape);

/// Reads a descriptor. @error{corrupt, not a map, a required key absent or of the wrong
/// kind, an unknown dtype or byte order, ndim or strides that do not match the shape}
[[nodiscard]] result<object_descriptor> parse_descriptor(const cbor_value& from);
/// Makes the map of a descriptor. @error{unsupported, a dtype without a Tensogram name;
/// out_of_range; invalid_argument, a number of strides other than that of the dimensions,
/// or a parameter with a key of the descriptor}
[[nodiscard]] result<cbor_map> make_descriptor(const object_descriptor& from);
/// Makes the map `{ndim, dtype, shape, strides}` for `base[i]._reserved_.tensor`.
/// @error{those of make_descriptor, except the one for a parameter}
[[nodiscard]] result<cbor_map> tensor_entry(const object_descriptor& from);

/// Makes the entry `base[i]._reserved_` of an object: its tensor, and `szip_offsets`, the
/// mark of a writer that vouches for the offsets of szip, as 16 hexadecimal digits.
/// @error{those of tensor_entry}
[[nodiscard]] result<cbor_map> make_reserved(const object_descriptor& from);
/// Returns the mark `szip_offsets`, or 0 if there is none.
[[nodiscard]] std::uint64_t parse_szip_mark(const cbor_map& reserved) noexcept;

/// Reads the metadata of frame types 1, 7 and 8. Unknown keys of the top move into
/// `extra`. @error{corrupt, not a map, a key that is no text, base, _extra_ or _reserved_
/// of the wrong kind, a key in two places}
[[nodiscard]] result<message_metadata> parse_metadata(cbor_value from);
/// Makes the map that parse_metadata() reads back. A key of `extra` that is nested too
/// deep for `_extra_` is stored at the top, where readers look for it too.
[[nodiscard]] cbor_map make_metadata(const message_metadata& from);
/// Returns true if a value that a reader accepts at the top of the message's map would be
/// nested too deep inside `_extra_`.
[[nodiscard]] bool too_deep_for_extra(const cbor_value& value) noexcept;
/// Makes the map that names the writer, with time and identifier unless the message must
/// be reproducible.
[[nodiscard]] cbor_map make_provenance(const provenance& from);

/// Sets the keys of a preceder in a base entry, apart from `_reserved_`.
void overlay(cbor_map& base, const cbor_map& preceder);

/// Offsets and lengths of the data object frames.
struct object_index {
  std::vector<std::uint64_t> offsets;  ///< of the frames, from the start of the message
  std::vector<std::uint64_t> lengths;  ///< of the frames, without padding
};
/// Reads an index. @error{corrupt, not a map of two arrays of unsigned integers, or
/// arrays of different sizes}
[[nodiscard]] result<object_index> parse_index(const cbor_value& from);
/// Makes the map that parse_index() reads back.
[[nodiscard]] cbor_map make_index(const object_index& from);
/// Returns the size of the encoded index in bytes, without encoding it.
[[nodiscard]] std::uint64_t index_size(const object_index& index) noexcept;

/// Digests of the data objects as the digest list has them.
struct digest_list {
  std::string algorithm;             ///< empty if absent
  std::vector<std::string> digests;  ///< 16 hexadecimal digits for each object
};
/// Reads a digest list. @error{corrupt, not a map with an array of text}
[[nodiscard]] result<digest_list> parse_digests(const cbor_value& from);
/// Makes the map that parse_digests() reads back.
[[nodiscard]] cbor_map make_digests(std::span<const std::uint64_t> digests);

}  // namespace weir::formats
