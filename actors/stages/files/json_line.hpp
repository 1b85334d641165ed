// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tensors as lines of JSON: an array of numbers, or an object that has one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/pipeline/item.hpp"
#include "weir/pipeline/port_type.hpp"
#include "weir/weir.hpp"

namespace weir::actors {

/// Returns whether elements of a type can be written as numbers of JSON.
[[nodiscard]] bool is_json_number(dtype type) noexcept;

/// A tensor with attributes that was read from a line.
struct json_item {
  std::vector<std::int64_t> shape;
  byte_vector elements;  ///< of the type that was asked for
  attributes about;      ///< scalars of the object
};

/// Reads a line. Integers must be in the range of an integer type; `null` is NaN.
/// Numbers in one flat array fill a type whose extents are all fixed. Other arrays and
/// objects than that of the field are not looked at.
/// @param type   Type of the tensor, with an element type for which `is_json_number`.
/// @param field  Name of the array in an object.
/// @error{corrupt, the line is no JSON, or its numbers do not fit to the type; the
/// message says at which byte of the line} @error{not_found, the object lacks the field}
[[nodiscard]] result<json_item> parse_json_line(std::string_view line,
                                                const flow::port_type& type,
                                                std::string_view field);

/// Returns whether each whole line of a text is one JSON value. A text without the end of
/// its first line may stop within the value. Further lines may be blank, or have a NUL,
/// which a crash can leave.
/// @param text  Begin of a file.
/// @param any_value  Lines may be strings, true and false, too, and not only objects,
/// arrays, numbers and null.
[[nodiscard]] bool begins_as_json_lines(std::string_view text, bool any_value);

/// Form of the lines that are written.
struct json_form {
  std::string field;  ///< name of the array in an object; empty: the array alone
  bool non_finite_is_null = false;  ///< NaN and infinities become null; false: an error
};

/// Appends a line with its end. Numbers have as many digits as are needed to read the
/// same number again.
/// @error{unsupported, the elements are no numbers}
/// @error{out_of_range, an element is not finite}
[[nodiscard]] result<void> append_json_line(std::string& to, const runtime::tensor& x,
                                            const attributes& about,
                                            const json_form& form);

}  // namespace weir::actors
