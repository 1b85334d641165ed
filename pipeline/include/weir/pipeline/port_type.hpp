// SPDX-License-Identifier: Apache-2.0
/// @file
/// Types of ports: the element type and the shape that a stage reads or writes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/dtype.hpp"
#include "weir/base/error.hpp"

namespace weir::flow {

/// One extent of a port type.
/// @threads{a value}
struct extent {
  /// `fixed`: a number. `letter`: unknown, and equal wherever a stage uses the letter.
  /// `unknown`: any number, written `?`; it may differ from item to item.
  enum class kind : std::uint8_t { fixed, letter, unknown };
  kind is = kind::unknown;  ///< which of the three it is
  std::int64_t number = 0;  ///< extent if it is fixed, at least 0
  char letter = '?';        ///< 'a' to 'z' if it is a letter

  friend bool operator==(const extent&, const extent&) = default;
};

/// Type of the tensor that an item has at a port, such as `f32[n,384]`, `u8[?]`, `f64[]`
/// or `any`.
/// @threads{a value}
struct port_type {
  /// Element type; absent if the port takes tensors of any type and shape (`any`).
  std::optional<dtype> element;
  /// Extents, the slowest dimension first. Empty for a scalar and for `any`.
  std::vector<extent> shape;

  /// Reads a type: an element type (`f16`, `bf16`, `f32`, `f64`, `i8` to `i64`, `u8` to
  /// `u64`, `bool`, `c64`, `c128`, `e4m3`, `e5m2`) with the extents in brackets, or
  /// `any`.
  /// @error{invalid_argument, the text is no type; the message shows the text and the
  /// position}
  [[nodiscard]] static result<port_type> parse(std::string_view text);
  /// Returns the text that `parse` reads.
  [[nodiscard]] std::string text() const;
  /// Returns the bytes of a tensor of this type if all extents are fixed.
  /// @units{bytes}
  [[nodiscard]] std::optional<std::int64_t> bytes() const;

  friend bool operator==(const port_type&, const port_type&) = default;
};

/// Returns the text of an element type in port types, such as `f32`.
/// @threads{safe to call concurrently}
[[nodiscard]] std::string_view port_text(dtype type);

}  // namespace weir::flow
