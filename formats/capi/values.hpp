// SPDX-License-Identifier: Apache-2.0
/// @file
/// The handle tgm_value_t is the address of a CBOR value inside a tgm_metadata_t, so that
/// values need no allocation and live as long as the metadata.
#pragma once

#include <tensogram/tensogram.h>
#include <optional>
#include <string>

#include "weir/formats/cbor.hpp"

namespace weir::capi {

/// Returns the handle of a value; NULL for a null pointer.
[[nodiscard]] inline const tgm_value_t* handle_of(
    const formats::cbor_value* value) noexcept {
  return reinterpret_cast<const tgm_value_t*>(value);
}

/// Returns the value inside of all tags; the C interface has no type for a tag.
[[nodiscard]] const formats::cbor_value& without_tags(
    const formats::cbor_value& value) noexcept;
/// Returns a float, or an integer as the nearest float.
[[nodiscard]] std::optional<double> widened(const formats::cbor_value& value) noexcept;
/// Returns the decimal digits of an integer, including those that exceed 64 bits.
[[nodiscard]] std::string digits_of(const formats::cbor_integer& value);

}  // namespace weir::capi
