// SPDX-License-Identifier: Apache-2.0
/// @file
/// Objects and metadata of Tensogram v3 messages.
/// @source{Tensogram v3; docs/formats/tensogram.md}
/// @threads{values; the functions are safe to call concurrently}
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/dtype.hpp"
#include "weir/base/error.hpp"
#include "weir/formats/cbor.hpp"

namespace weir::formats {

/// Order of the bytes of an element.
enum class byte_order : std::uint8_t { little, big };
/// Order of the bytes on this machine.
inline constexpr byte_order native_byte_order =
    std::endian::native == std::endian::little ? byte_order::little : byte_order::big;

/// Type, shape and pipeline of a data object. Every field that a reader finds is written
/// again with the object.
/// @source{Tensogram v3, data object descriptor}
struct object_descriptor {
  dtype type = dtype::fp32;  ///< type of the elements
  shape_vector shape;        ///< extents in elements, C order; empty: a scalar
  byte_order order = native_byte_order;  ///< order of the bytes of the elements
  std::string object_type = "ntensor";   ///< type of the object
  std::string encoding = "none";         ///< first stage of the pipeline
  std::string filter = "none";           ///< second stage of the pipeline
  std::string compression = "none";      ///< third stage of the pipeline
  cbor_map parameters;                   ///< parameters (`zstd_level`) and unknown keys
  cbor_map masks;                        ///< masks as read; a writer makes its own
  /// Strides in elements, one per dimension; empty: those of C order. They are kept and
  /// not interpreted: elements lie in C order.
  std::vector<std::uint64_t> strides;
  /// Mark of the writer that the `szip_block_offsets` are correct, so that ranges may be
  /// read by them; 0: there is no such mark. A writer sets it if it makes the offsets
  /// itself.
  /// @source{docs/decisions/703-szip-offsets-count-only-where-marked.md}
  std::uint64_t szip_offsets = 0;

  friend bool operator==(const object_descriptor&, const object_descriptor&) = default;
};

/// Returns the size of all elements once decoded; for a bitmask of n bits ceil(n / 8).
/// @units{bytes} @error{out_of_range; the product of the shape or its bytes exceed
/// 2^63-1}
[[nodiscard]] result<std::uint64_t> decoded_size(const object_descriptor& descriptor);

/// Metadata of a message: the last metadata frame, with the keys of preceder frames
/// added.
struct message_metadata {
  std::vector<cbor_map> base;  ///< metadata of each object
  cbor_map extra;              ///< keys of the message, `_extra_` on the wire
  cbor_map reserved;           ///< provenance, `_reserved_` on the wire
};

/// Returns the value at a path such as "mars.param": the first match in base[0], base[1],
/// ..., then in extra. A path that begins with `extra.` or `_extra_.` is looked up in
/// extra alone; `_reserved_` is hidden. Returns nullptr if there is none.
[[nodiscard]] const cbor_value* find_path(const message_metadata& metadata,
                                          std::string_view path);
/// Returns the value at a path in one map, or nullptr.
[[nodiscard]] const cbor_value* find_path(const cbor_map& map, std::string_view path);

/// Encoding of a mask of non-finite values. blosc2 is only read.
enum class mask_method : std::uint8_t { none, rle, roaring, lz4, zstd, blosc2 };

/// Selection of the non-finite values that become zeros with a mask of their positions.
struct mask_options {
  bool nan = false;                               ///< replace NaN
  bool infinity = false;                          ///< replace infinities of both signs
  mask_method nan_method = mask_method::roaring;  ///< encoding of the mask of NaN
  mask_method positive_method = mask_method::roaring;  ///< encoding of that of +infinity
  mask_method negative_method = mask_method::roaring;  ///< encoding of that of -infinity
  std::uint64_t small_mask_bytes = 128;  ///< up to this size, masks are not encoded
};

/// Masks of an object: one bit per element, the most significant first. A mask that does
/// not exist is empty.
struct value_masks {
  byte_vector nan;                ///< positions of NaN
  byte_vector positive_infinity;  ///< positions of +infinity
  byte_vector negative_infinity;  ///< positions of -infinity
  friend bool operator==(const value_masks&, const value_masks&) = default;
};

}  // namespace weir::formats
