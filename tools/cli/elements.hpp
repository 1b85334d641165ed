// SPDX-License-Identifier: Apache-2.0
/// @file
/// Single elements of tensors as JSON.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>

#include "weir/base/bytes.hpp"
#include "weir/base/dtype.hpp"

namespace weir::tools {

/// Returns element `index` of an array in native byte order, which need not be aligned.
/// @threads{safe to call concurrently}
template <class T>
[[nodiscard]] T element_at(bytes_view bytes, std::size_t index) noexcept {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

/// Returns bit `index` of a bitmask, whose first bit is the most significant one.
/// @threads{safe to call concurrently}
[[nodiscard]] inline bool bit_at(bytes_view bytes, std::size_t index) noexcept {
  return (std::to_integer<unsigned>(bytes[index / 8]) >> (7 - index % 8) & 1U) != 0;
}

/// Returns an element as JSON: a number, `true` or `false`, or [real, imaginary].
///
/// Reals are the shortest text that reads back as the same number. NaN and infinities,
/// which JSON has no numbers for, are the strings "nan", "inf" and "-inf".
/// @param bytes  Elements in native byte order, without alignment.
/// @param index  Number of the element, which must lie within `bytes`.
/// @threads{safe to call concurrently}
[[nodiscard]] std::string element_json(dtype type, bytes_view bytes, std::size_t index);

}  // namespace weir::tools
