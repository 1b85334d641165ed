// SPDX-License-Identifier: Apache-2.0
/// @file
/// Search for NaN and infinities in the bytes of float and complex objects.
#pragma once

#include <cstddef>
#include <optional>

#include "weir/formats/tensogram.hpp"

namespace weir::formats {

/// Place and kind of a value that is not finite.
struct non_finite_element {
  std::size_t index = 0;  ///< of the element; a complex one counts as one
  bool nan = false;       ///< NaN, or else an infinity
};

/// Returns the first element that is not finite; nothing if all are finite, or if the
/// type has only finite values.
[[nodiscard]] std::optional<non_finite_element> find_non_finite(
    bytes_view elements, dtype type, byte_order order) noexcept;

}  // namespace weir::formats
