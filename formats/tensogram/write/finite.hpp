// SPDX-License-Identifier: Apache-2.0
/// @file
/// Search for NaN and infinities in the bytes of float and complex objects.
#pragma once

#include <cstddef>
#include <optional>

#include "weir/formats/tensogram.hpp"

namespace weir::formats {

struct non_finite_element {
  std::size_t index = 0;  ///< of the element; a complex one counts as one
  bool nan = false;
};

/// First element that is not finite, nothing if there is none or the type has none.
[[nodiscard]] std::optional<non_finite_element> find_non_finite(
    bytes_view elements, dtype type, byte_order order) noexcept;

}  // namespace weir::formats
