// SPDX-License-Identifier: Apache-2.0
/// @file
/// A tgm_value_t is a CBOR value in a tgm_metadata_t.
#pragma once

#include <tensogram/tensogram.h>
#include <optional>
#include <string>

#include "weir/formats/cbor.hpp"

namespace weir::capi {

[[nodiscard]] inline const tgm_value_t* handle_of(
    const formats::cbor_value* value) noexcept {
  return reinterpret_cast<const tgm_value_t*>(value);
}

/// Returns the value inside of all tags; the C interface has no type for a tag.
[[nodiscard]] const formats::cbor_value& without_tags(
    const formats::cbor_value& value) noexcept;
/// A float, or an integer as the nearest float.
[[nodiscard]] std::optional<double> widened(const formats::cbor_value& value) noexcept;
/// Decimal digits, also of an integer of more than 64 bits.
[[nodiscard]] std::string digits_of(const formats::cbor_integer& value);

}  // namespace weir::capi
