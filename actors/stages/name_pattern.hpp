// SPDX-License-Identifier: Apache-2.0
/// @file
/// Names of items, made of their numbers and attributes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/pipeline/item.hpp"

namespace weir::actors {

/// A text in which names in braces stand for facts of an item: `{item}` for its number,
/// `{item:8}` for the number with at least 8 digits, `{NAME}` for the attribute NAME.
/// @threads{const members are safe to call concurrently}
class name_pattern {
 public:
  /// Reads a pattern.
  /// @error{invalid_argument, the text has a NUL, a brace has no partner, a name is
  /// empty, or the number of digits is not from 1 to 20}
  [[nodiscard]] static result<name_pattern> parse(std::string_view text);
  /// Returns the name of an item.
  /// @error{not_found, the item has no attribute of a name; the message names the
  /// nearest}
  [[nodiscard]] result<std::string> name_of(std::uint64_t item,
                                            const attributes& about) const;
  /// Returns the name of the file of an item. Attributes come from the data, so their
  /// values choose no folder: `/`, NUL and a point at the begin become `_`, and so does
  /// an empty value if the name of the folder or file in front of it is empty or consists
  /// of points.
  /// @error{not_found, see `name_of`}
  [[nodiscard]] result<std::string> file_of(std::uint64_t item,
                                            const attributes& about) const;
  /// Returns whether the name depends on the number of the item and on no attribute, so
  /// that no two items of a run have one name.
  [[nodiscard]] bool is_unique() const noexcept;
  /// Returns whether the name is the same for all items.
  [[nodiscard]] bool is_constant() const noexcept;
  /// Returns whether the name depends on the number of the item.
  [[nodiscard]] bool has_number() const noexcept;

 private:
  [[nodiscard]] result<std::string> replaced(std::uint64_t item, const attributes& about,
                                             bool for_file) const;
  /// A piece of the pattern.
  struct part {
    std::string text;        ///< text, or the name of an attribute
    bool in_braces = false;  ///< the text stands in braces
    std::size_t digits = 0;  ///< of the number of the item; 0: not the number
  };
  std::vector<part> parts_;
};

}  // namespace weir::actors
