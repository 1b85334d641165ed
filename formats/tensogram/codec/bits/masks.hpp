// SPDX-License-Identifier: Apache-2.0
/// @file
/// Masks of non-finite values: such elements are stored as zeros, and bit lists say which
/// value each of them had.
#pragma once

#include <optional>

#include "weir/formats/tensogram.hpp"

namespace weir::formats {

/// Elements whose non-finite values were replaced by zeros, and their positions.
struct masked_elements {
  byte_vector elements;  ///< with zeros in place of the values
  value_masks masks;
};

/// Replaces NaN and infinities as `options` allow; with `keep_others` those that are not
/// allowed stay where they are. Returns an empty optional if all elements are finite, or
/// if their type has only finite values.
/// @error{invalid_argument, a non-finite element of a kind that is not allowed}
[[nodiscard]] result<std::optional<masked_elements>> take_masks(
    bytes_view elements, const object_descriptor& descriptor, const mask_options& options,
    bool keep_others);

/// Returns the error for a non-finite element of a kind that is not allowed.
[[nodiscard]] error non_finite_error(dtype type, bool nan, std::uint64_t index);

/// Encoded masks: the bytes behind the payload, and the `masks` map of the descriptor,
/// which locates each mask in them.
struct stored_masks {
  byte_vector bytes;
  cbor_map map;
};
/// Encodes masks for storage behind a payload of `payload_size` bytes.
/// @error{invalid_argument, blosc2 or too many elements for roaring; out_of_memory}
[[nodiscard]] result<stored_masks> store_masks(const value_masks& masks,
                                               std::uint64_t count,
                                               std::uint64_t payload_size,
                                               const mask_options& options);
/// Decodes the masks that `map` describes. `region` is the payload and the masks behind
/// it. Masks of unknown kinds are ignored.
/// @error{corrupt; unsupported}
[[nodiscard]] result<value_masks> load_masks(const cbor_map& map, bytes_view region,
                                             std::uint64_t count);
/// Checks that load_masks() would succeed, without memory for all bits at once.
/// @error{those of load_masks}
[[nodiscard]] result<void> check_masks(const cbor_map& map, bytes_view region,
                                       std::uint64_t count);
/// Writes quiet NaNs and infinities where the masks say so, into elements `first`, first
/// + 1, ... in byte order `order`.
void restore_values(const value_masks& masks, dtype type, byte_order order,
                    std::uint64_t first, mutable_bytes elements) noexcept;

/// Returns the method with a name. @error{corrupt, no such method}
[[nodiscard]] result<mask_method> mask_method_named(std::string_view name);

}  // namespace weir::formats
